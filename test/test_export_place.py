"""Where ``export`` may write: said once, before any bag is read, and nothing is made."""

import os
import shutil
from pathlib import Path

import pytest
from export_cases import files, run, small_bag

from piper_collect.cli.main import main
from piper_collect.dataset.guard import locked

pytestmark = pytest.mark.usefixtures("no_sync")
SESSION = "pick_20260101_120000"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two recordings of a session, and a dataset of the first."""
    top = tmp_path_factory.mktemp("place")
    session = top / "rec" / SESSION
    first = small_bag(session / "episode_000000", 0)
    small_bag(session / "episode_000001", 1)
    for name in ("session.json", "session.yaml"):
        (session / name).write_text("{}")
    run([first], top / "train")
    return top


@pytest.fixture
def top(made, tmp_path, monkeypatch):
    """A copy of it, which is the working directory."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def unread(monkeypatch):
    """Opening a bag fails the test."""

    def refuse(path, *_args, **_more):
        raise AssertionError(f"a bag was read: {path}")

    for module in ("pipelines.export_run", "pipelines.prepare"):
        monkeypatch.setattr(f"piper_collect.{module}.open_bag", refuse)


S = f"rec/{SESSION}"
REFUSED = [
    ("file", [], "file: is a file (expected a folder"),
    ("file/ds", [], "file/ds: the dataset folder cannot be made: "),
    ("/proc/none/ds", [], "/proc/none/ds: the dataset folder cannot be made: /proc: "),
    ("full", [], "full: the folder is not a dataset (expected meta/info.json"),
    ("train", ["--dialect", "lerobot-v3.0"], "the dataset has another codebase_version (expected 'v3.0'"),
    ("train", ["--profile", "piper"], "the dataset has another codebase_version (expected 'v2.0'"),
    (
        "train",
        ["--profile", "trex"],
        "the dataset has no column observation.state_eef10, which the profile trex",
    ),
    ("train/more", [], "train/more: the folder lies in a dataset"),
    (f"{S}/ds", [], f"{S}/ds: the dataset would lie in a recording session"),
    (f"{S}/.recording/ds", [], "the dataset would lie in a recording session"),
    (f"{S}/episode_000000/ds/more", [], "the dataset would lie in a bag"),
    (f"{S}/episode_000000", [], f"{S}/episode_000000: is a bag, not a dataset"),
    (S, [], f"{S}: is a recording session, not a dataset"),
    ("rec", [], "rec: the recordings lie in the folder of the dataset"),
    (".", [], "the recordings lie in the folder of the dataset"),
]


@pytest.mark.parametrize("watch", [False, True])
@pytest.mark.parametrize(("output", "more", "said"), REFUSED)
def test_it_is_refused_once_before_any_bag_is_read(top, unread, capsys, output, more, said, watch):
    before = files(top)
    words = ["export", "rec", "-o", output, "--profile", "train", *more]
    assert main(words + ["--watch"] * watch) == 1
    out, err = capsys.readouterr()
    assert out == "" or watch
    assert err.startswith("error: ")
    assert said in err
    assert err.count("\n") == 1
    assert files(top) == before


def test_a_folder_that_cannot_be_written_is_refused_once(top, unread, capsys, monkeypatch):
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK | os.X_OK and real(path, mode))
    assert main(["export", "rec", "-o", "train", "--profile", "train"]) == 1
    assert capsys.readouterr().err.startswith("error: train: the dataset folder cannot be written")


def test_a_dataset_that_another_process_writes_is_refused_before_any_bag_is_read(top, unread, capsys):
    with locked(Path("train")):
        assert main(["export", "rec", "-o", "train", "--profile", "train"]) == 1
    assert "another process is writing this dataset" in capsys.readouterr().err


def test_a_link_into_a_session_is_seen_through(top, unread, capsys):
    Path("elsewhere").symlink_to(Path(S).absolute(), target_is_directory=True)
    assert main(["export", "rec", "-o", "elsewhere/ds", "--profile", "train"]) == 1
    assert "the dataset would lie in a recording session" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["train", "new", "rec/ds", "new/below", "empty"])
def test_what_is_beside_the_recordings_is_taken(top, output):
    Path("empty").mkdir()
    Path("session.yaml").write_text("{}")  # a configuration of one's own makes no session of its folder
    assert main(["export", "rec", "-o", output, "--profile", "train", "--quiet"]) == 0
    assert (top / output / "meta/info.json").is_file()


def test_a_loose_file_may_lie_beside_its_dataset(top):
    shutil.copy(f"{S}/episode_000001/episode_000001_0.mcap", "alone.mcap")
    assert main(["export", "alone.mcap", "-o", "ds", "--profile", "train", "--quiet"]) == 0
