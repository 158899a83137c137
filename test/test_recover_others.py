"""``piper-collect recover`` of bags that others recorded: beside the original, and nothing is invented."""

import json
import shutil
from pathlib import Path

import pytest
import zstandard
from recover_cases import Studio, arm_rows, rows_of, tree
from rosbags.highlevel import AnyReader
from test_bag_reader import ROWS, db3_rows, read, write_db3, write_mcap
from test_bag_writer import string_cdr, write_strings

from piper_collect.bag.find import find_bags
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import read_record
from piper_collect.cli import main as cli
from piper_collect.config.profile import load_profile
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.recover import recover

pytestmark = pytest.mark.usefixtures("no_sync")
CASES = Path(__file__).resolve().parent.parent.parent / "shared" / "cases" / "bags"
CUT = "nothing shows that the recorder closed the bag: what it had not yet written is missing"


def cut(path, share=0.5, name="bag"):
    """A folder without metadata.yaml, its file cut short."""
    path.mkdir()
    file = write_mcap(path / f"{name}_0.mcap", ROWS, chunk_size=100)
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * share)])
    return path


def texts(path):
    with open_bag(path) as bag:
        return [(m.topic, m.receive_ns, bag.decode(m.topic, m.payload).data) for m in bag.messages()]


def test_a_killed_bag_is_recovered_beside_it_and_nothing_is_invented(tmp_path):
    bag = cut(tmp_path / "ride")
    before = tree(bag)
    (result,) = recover([bag])
    assert (result.status, result.bag, result.original) == ("recovered", tmp_path / "recovered_ride", bag)
    assert tree(bag) == before
    found = texts(result.bag)
    assert 5 < len(found) < 40
    assert found == ROWS[: len(found)]
    assert (result.reasons, result.most_missing_s) == ((CUT,), None)
    with open_bag(result.bag) as recovered:
        assert set(recovered.custom_data) == {"complete", "incomplete_reasons", "recovered"}
        record = read_record(recovered)
    assert (record.session, record.task, record.outcome, record.start_ns) == ("", "", "", None)
    assert record.incomplete_reasons == (CUT,)
    said = json.loads((result.bag / "episode.json").read_text())
    assert set(said) == {"complete", "incomplete_reasons", "messages_in_bag", "storage", "recovered"}
    with AnyReader([result.bag]) as reader:
        assert len(list(reader.messages())) == len(found)
    (refused,) = export([result.bag], None, ExportOptions(profile=load_profile("piper"))).bags
    assert (refused.status, refused.reason) == ("skipped", CUT)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["recovered_ride", "ride"]


def test_a_second_run_has_nothing_to_do_until_the_original_changes(tmp_path):
    bag = cut(tmp_path / "ride")
    (first,) = recover([bag])
    before = tree(tmp_path)
    (again,) = recover([bag])
    assert (again.status, again.bag) == ("done", first.bag)
    assert recover([tmp_path]) == ()
    assert tree(tmp_path) == before
    file = bag / "bag_0.mcap"
    file.write_bytes(file.read_bytes()[:-30])
    (other,) = recover([bag])
    assert other.status == "failed"
    assert "this is in the way, and was made of another bag" in other.error
    file.write_bytes(before["ride/bag_0.mcap"])
    (last,) = recover([bag], delete_original=True)
    assert (last.status, last.original) == ("done", None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["recovered_ride"]


def test_a_bare_file(tmp_path):
    cut(tmp_path / "x", name="ride")
    file = (tmp_path / "x" / "ride_0.mcap").rename(tmp_path / "ride.mcap")
    (result,) = recover([file])
    assert result.bag == tmp_path / "recovered_ride"
    assert (result.bag / "recovered_ride_0.mcap").is_file()
    assert file.is_file()
    (gone,) = recover([file], delete_original=True)
    assert (gone.status, gone.original, file.exists()) == ("done", None, False)
    whole = write_mcap(tmp_path / "whole.mcap", ROWS, chunk_size=100)
    assert [r.status for r in recover([whole])] == ["whole"]


def test_the_search_takes_the_recovered_bag_in_place_of_the_original(tmp_path):
    bag = cut(tmp_path / "ride")
    write_strings(tmp_path / "good", ROWS)
    assert find_bags([tmp_path]) == [tmp_path / "good", bag]
    recover([tmp_path])
    assert find_bags([tmp_path]) == [tmp_path / "good", tmp_path / "recovered_ride"]
    assert find_bags([bag]) == [bag]


def test_only_the_metadata_was_missing(tmp_path):
    bag = write_strings(tmp_path / "ride", ROWS, custom={"note": "mine"})
    (bag / "metadata.yaml").unlink()
    (result,) = recover([bag])
    assert (result.reasons, result.most_missing_s) == ((), 0.0)
    assert texts(result.bag) == ROWS
    with open_bag(result.bag) as recovered:
        assert recovered.custom_data["note"] == "mine"
        assert recovered.custom_data["complete"] == "true"
        assert read_record(recovered).incomplete_reasons == ()


def test_a_whole_bag_is_read_to_its_end_and_left_alone(tmp_path):
    bag = write_strings(tmp_path / "ride", ROWS, 4)
    assert [r.status for r in recover([bag])] == ["whole"]
    file = bag / "ride_0.mcap"
    file.write_bytes(file.read_bytes().replace(b"text 6", b"text x", 1))
    (result,) = recover([bag])
    assert result.status == "recovered"
    assert texts(result.bag) == ROWS[:4] + ROWS[8:]
    assert dict(result.lost) == {"/a": 2, "/b": 2}


def test_a_saved_episode_that_was_cut_later_keeps_its_record(tmp_path):
    studio = Studio(tmp_path / "root")
    saved = studio.save(200)
    file = saved / "episode_000000_0.mcap"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    (result,) = recover([tmp_path / "root"])
    assert result.bag == saved.parent / "recovered_episode_000000"
    rows = arm_rows(200)
    kept = rows_of(result.bag)
    assert kept == rows[: len(kept)]
    assert result.reasons == (
        f"the storage was cut short after it was recorded: {len(rows) - len(kept)} messages are missing",
    )
    assert result.most_missing_s == pytest.approx((200 * 5e6 - (kept[-1][1] - rows[0][1])) / 1e9, abs=0.002)
    said = json.loads((result.bag / "episode.json").read_text())
    assert (said["task"], said["outcome"], said["complete"]) == ("pick the cube", "success", False)
    assert studio.folder.episodes() == [0]
    assert find_bags([tmp_path / "root"]) == [result.bag]


def split_bag(path):
    """Four files of ten messages, and a fifth of which nothing reached the disk."""
    path.mkdir()
    for number in range(4):
        write_mcap(path / f"ride_{number}.mcap", ROWS[number * 10 : number * 10 + 10], chunk_size=100)
    (path / "ride_4.mcap").write_bytes(b"")
    return path


def test_files_that_hold_nothing_and_files_that_are_not_listed(tmp_path):
    bag = split_bag(tmp_path / "ride")
    (result,) = recover([bag])
    assert texts(result.bag) == ROWS
    assert any("ride_4.mcap: the storage file is empty" in reason for reason in result.reasons)
    shutil.rmtree(result.bag)
    listing = write_strings(tmp_path / "other", ROWS) / "metadata.yaml"
    (bag / "metadata.yaml").write_text(listing.read_text().replace("other_0.mcap", "ride_0.mcap"))
    (bag / "ride_4.mcap").unlink()
    (result,) = recover([bag])
    assert (result.status, texts(result.bag)) == ("recovered", ROWS)
    shutil.rmtree(result.bag)
    (bag / "ride_0.mcap").unlink()
    (result,) = recover([bag])
    assert texts(result.bag) == ROWS[10:]


def test_messages_packed_one_by_one_without_a_metadata_that_says_so(tmp_path):
    pack = zstandard.ZstdCompressor().compress
    rows = [(name, at, pack(string_cdr(text))) for name, at, text in ROWS]
    (tmp_path / "ride").mkdir()
    write_db3(tmp_path / "ride" / "ride_0.db3", rows)
    (result,) = recover([tmp_path / "ride"])
    assert read(result.bag) == ROWS
    assert result.reasons == (CUT,)


def test_sqlite3_that_cannot_be_read_is_one_error_at_every_cut(tmp_path, capsys):
    (tmp_path / "ride").mkdir()
    file = write_db3(tmp_path / "ride" / "ride_0.db3", db3_rows(ROWS * 20))
    content = file.read_bytes()
    before = sorted(p.name for p in tmp_path.iterdir())
    for size in (50, 99, 5000, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        code = cli.main(["recover", str(file), "--quiet"])
        said = capsys.readouterr().err
        assert code == 1, size
        assert said.startswith("error: ")
        assert str(file) in said
        assert "Traceback" not in said
    assert sorted(p.name for p in tmp_path.iterdir()) == before


# -- real bags ---------------------------------------------------------------------------------


@pytest.mark.skipif(not CASES.is_dir(), reason="the real bags (../shared/cases/bags) are not here")
@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("truncated_rosbag_analyzer/fixtures/test_sample_truncated.mcap", 14),
        ("rosbag2_2021_reindex/reindex_test_bags/multiple_files", 3177),
        ("rosbag2_2021_reindex/reindex_test_bags/message_compression", 1127),
        ("rosbag2_rolling/py_mcap/reindex_test_bags/multiple_files", 3177),
        ("image_rosbag2js/sample.db3", 5),
        ("nonmonotonic_bagx/sample_bag.db3", 1320),
        ("zero_byte_db3/ros2_dir_bag", None),
    ],
)
def test_real_bags(tmp_path, name, messages):
    source = CASES / name
    place = tmp_path / source.name
    shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
    (result,) = recover([place])
    if messages is None:
        assert result.status == "failed"
        return
    assert (result.status, sum(result.counts.values())) == ("recovered", messages)
    with AnyReader([result.bag]) as reader:
        assert len(list(reader.messages())) == messages
    with open_bag(place, salvage=True) as one, open_bag(result.bag) as other:
        for before, after in zip(one.messages(), other.messages(), strict=True):
            assert before[:3] == after[:3]
