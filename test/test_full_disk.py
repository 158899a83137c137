"""Full, read-only and forbidden disks: refused in one line, nothing half-written, the rest untouched."""

import json
import os
import shutil

import pytest
from export_cases import files, run, small_bag
from recover_cases import Studio, arm_rows, rows_of
from small_disk import as_anybody, small_disk

from piper_collect.bag.session_folder import check_root
from piper_collect.cli.main import main
from piper_collect.errors import BagError, SessionError
from piper_collect.pipelines.recover import recover

REASONS = ["not saved: no room"]


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", 2) as disk:
        yield disk


FLUSH_EACH = 60


def write_until_it_fails(recording, rows):
    """How many messages it took before it said that there is no room, and what it said."""
    for number, (topic, at, payload) in enumerate(rows):
        try:
            recording._writer.write(topic, payload, at)
            if number % FLUSH_EACH == FLUSH_EACH - 1:
                recording._writer.flush_due(float(number))
        except BagError as err:
            return number, str(err)
    raise AssertionError("there was room for all of it")


# -- the recording ---------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_disk_that_fills_up_keeps_what_was_written_and_what_was_counted(disk, tmp_path, storage, tally):
    studio = Studio(disk.path / "recordings", storage)
    saved = studio.save(20)
    before = files(saved)
    recording = studio.begin()
    disk.fill(200_000)
    rows = arm_rows(4000)
    written, error = write_until_it_fails(recording, rows)
    assert "No space left on device" in error or "disk is full" in error
    counts = {topic: {"messages": written // 3, "lost": 3} for topic, _, _ in rows[:3]}
    recording.leave(REASONS, counts)
    assert files(saved) == before
    said = json.loads((recording.path / "episode.json").read_text())
    assert (said["complete"], said["incomplete_reasons"], said["topics"]) == (False, REASONS, counts)
    assert written > 2 * FLUSH_EACH

    elsewhere = tmp_path / "elsewhere" / studio.folder.name
    shutil.copytree(studio.folder.path, elsewhere)
    (result,) = recover([elsewhere.parent])
    kept = rows_of(result.bag)
    assert kept == rows[: len(kept)]
    assert written - len(kept) <= FLUSH_EACH
    record = json.loads((result.bag / "episode.json").read_text())
    assert record["topics"] == counts
    assert record["incomplete_reasons"][0] == REASONS[0]
    assert record["recovered"]["most_missing_s"] == 1.0
    tally("messages checked", len(kept))


def test_an_episode_that_cannot_begin_for_lack_of_room_leaves_nothing(disk):
    studio = Studio(disk.path / "recordings")
    saved = studio.save(20)
    before = files(studio.folder.path)
    disk.fill(0)
    with pytest.raises((SessionError, BagError), match="No space left"):
        studio.begin()
    disk.empty()
    assert files(studio.folder.path) == before
    assert rows_of(saved) == arm_rows(20)


def test_a_recovery_without_room_is_one_line_and_leaves_the_original(disk, capsys):
    studio = Studio(disk.path / "recordings")
    left = studio.kill(200)
    before = files(disk.path)
    disk.fill(20_000)
    assert main(["recover", str(disk.path / "recordings"), "--quiet"]) == 1
    err = capsys.readouterr().err
    assert "not enough room to write the recovered bag" in err
    disk.empty()
    assert files(disk.path) == before
    (result,) = recover([disk.path])
    assert (result.source, result.status) == (left, "recovered")


def test_a_read_only_disk_is_refused_before_anything_starts(disk, capsys):
    disk.remount("ro")
    with pytest.raises(SessionError, match=r"cannot be written.*Read-only file system"):
        check_root(disk.path / "recordings")
    assert main(["record", "--root", str(disk.path / "recordings")]) == 1
    err = capsys.readouterr().err
    assert (err.count("\n"), "Read-only file system" in err) == (1, True)


def test_permission_lost_in_mid_episode_keeps_the_whole_recording(fast_path):
    fast_path.chmod(0o777)
    with as_anybody():
        studio = Studio(fast_path / "recordings")
        studio.save(5)
        recording = studio.begin()
        for topic, at, payload in arm_rows(50):
            recording.write(topic, payload, at)
        studio.folder.path.chmod(0o555)
        try:
            with pytest.raises(SessionError, match="cannot be moved into place: Permission denied"):
                recording.finish(end_ns=1, outcome="success", incomplete_reasons=[], topics={})
        finally:
            studio.folder.path.chmod(0o755)
        assert sorted(p.name for p in studio.folder.path.iterdir() if p.name[0] != ".")[0] == "episode_000000"
        (result,) = recover([fast_path / "recordings"])
        assert (result.most_missing_s, result.reasons) == (0.0, ())
        assert rows_of(result.bag) == arm_rows(50)


# -- the export ------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_export_that_fills_the_disk_keeps_whole_episodes_and_goes_on_when_there_is_room(
    disk, tmp_path, capsys, workers
):
    for number in range(4):
        small_bag(tmp_path / "recordings" / f"episode_{number:06d}", number)
    run(tmp_path / "recordings", tmp_path / "whole", "train")
    whole = files(tmp_path / "whole")
    root = disk.path / "ds"
    run(tmp_path / "recordings" / "episode_000000", root, "train")
    run(tmp_path / "recordings" / "episode_000000", tmp_path / "one", "train")
    disk.fill(8_000)
    words = ["export", str(tmp_path / "recordings"), "-o", str(root), "--profile", "train", "--quiet"]
    assert main([*words, "--workers", workers]) == 1
    err = capsys.readouterr().err
    assert "No space left on device" in err
    assert "Traceback" not in err
    assert files(root) == files(tmp_path / "one")
    assert set(os.listdir(disk.path)) == {"ds", "filler"}
    disk.empty()
    assert main([*words, "--workers", workers]) == 0
    assert files(root) == whole


@pytest.mark.parametrize("there", [False, True])
def test_an_export_to_a_read_only_disk_is_one_line(disk, tmp_path, capsys, there):
    small_bag(tmp_path / "recordings" / "episode_000000")
    small_bag(tmp_path / "recordings" / "episode_000001", 1)
    root = disk.path / "ds"
    if there:
        run(tmp_path / "recordings" / "episode_000000", root, "train")
    disk.remount("ro")
    before = files(disk.path)
    words = ["export", str(tmp_path / "recordings"), "-o", str(root), "--profile", "train", "--quiet"]
    assert main(words) == 1
    err = capsys.readouterr().err
    assert (err.count("\n"), "ds: the dataset folder cannot be" in err) == (1, True), err
    assert files(disk.path) == before
