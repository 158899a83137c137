"""A dataset that every episode left is the same to all verbs, in every format, and can grow again."""

import json
import shutil
from pathlib import Path

import pytest
from export_cases import files, run, small_bag

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.core.overview import NO_EPISODE
from piper_collect.pipelines.push import make_card

pytest.importorskip("h5py", reason="h5py is not installed (pip install 'piper_collect[hdf5]')")
pytestmark = pytest.mark.usefixtures("no_sync")
FORMATS = ("lerobot-v2.0", "lerobot-v2.1", "lerobot-v3.0", "hdf5-cases")
SESSION = "pick_20260101_120000"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings and their dataset in each format."""
    folder = tmp_path_factory.mktemp("empty")
    bags = [small_bag(folder / SESSION / f"episode_{n:06d}", n) for n in range(2)]
    for dialect in FORMATS:
        run(bags, folder / dialect, with_dialect(load_profile("train"), dialect))
    return folder


@pytest.fixture(params=FORMATS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(made: Path, tmp_path: Path, dialect: str, capsys: pytest.CaptureFixture[str]) -> Path:
    """The dataset, emptied."""
    root = shutil.copytree(made / dialect, tmp_path / "ds")
    assert main(["edit", str(root), "--delete", "0-1"]) == 0
    assert f"0 left\nnote: {NO_EPISODE}\n" in capsys.readouterr().out
    return root


def test_validate_and_info_agree(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(root), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert [(f["level"], f["code"]) for f in report["findings"] if f["level"] != "info"] == [
        ("error", "empty")
    ]
    assert report["findings"][0]["text"] == NO_EPISODE
    assert report["facts"]["consumers"] == {}
    assert main(["info", str(root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["episodes"], told["rows"], told["outcomes"], told["tasks"]) == (0, 0, {}, {})
    assert told["problems"] == [NO_EPISODE]
    assert (told["trainers"]["loads"], told["trainers"]["refuses"]) == ([], {})
    assert [step["command"] for step in told["next_steps"]] == [f"piper-collect export PATH... -o {root}"]


def test_its_page_can_be_written(root: Path, tmp_path: Path) -> None:
    assert main(["validate", str(root), "--quiet", "--html", str(tmp_path / "page.html")]) == 3
    assert NO_EPISODE in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_export_goes_on_in_it(made: Path, root: Path, dialect: str) -> None:
    words = ["--profile", "train", "--dialect", dialect, "--quiet"]
    assert main(["export", str(made / SESSION), "-o", str(root), *words]) == 0
    assert files(root) == files(made / dialect)
    assert main(["validate", str(root), "--quiet"]) == 0


@pytest.mark.parametrize("verb", ["finalize", "convert", "replay"])
def test_what_needs_episodes_refuses_it_in_one_line(
    root: Path, dialect: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "lerobot-v2.1" if dialect == "lerobot-v3.0" else "lerobot-v3.0"
    more = {
        "convert": ["--to", other, "-o", str(tmp_path / "out")],
        "replay": ["--episode", "0", "--dry-run"],
    }
    assert main([verb, str(root), *more.get(verb, [])]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert any(text in err for text in ("no rows", "no episode", "no such episode"))
    assert not (tmp_path / "out").exists()


def test_its_card_tells_the_error_that_keeps_it_from_being_pushed(root: Path) -> None:
    (error,) = make_card(root, "pick").errors
    assert NO_EPISODE in error


def test_merge_takes_none_of_it(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for dialect in FORMATS[:-1]:  # HDF5 cases are never merged
        folder = tmp_path / dialect
        for name in ("a", "b"):
            shutil.copytree(made / dialect, folder / name)
            assert main(["edit", str(folder / name), "--delete", "0,1"]) == 0
        full, out = made / dialect, folder / "out"
        assert main(["merge", str(folder / "a"), str(full), "-o", str(out)]) == 0
        assert f"0 of {folder / 'a'}\n  2 of {full}\n" in capsys.readouterr().out
        assert main(["validate", str(out), "--quiet"]) == 0
        assert main(["merge", str(folder / "a"), str(folder / "b"), "-o", str(folder / "none")]) == 1
        assert "there is no episode to merge" in capsys.readouterr().err
        assert not (folder / "none").exists()
