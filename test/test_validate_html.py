"""``validate --html`` from the command line: bags and the datasets made of them, and pages that cannot be."""

import pytest
from bag_faults import bag, messages, without
from page_reading import read_page

from piper_collect.cli.main import main
from piper_collect.config.profile import load_profile
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two bags, one with a gap, and the dataset of both."""
    folder = tmp_path_factory.mktemp("made")
    bag(folder / "bags" / "episode_000000", messages(), task="stack <b>the</b> cups & saucers \U0001f9ca")
    bag(folder / "bags" / "episode_000001", without(messages(), "/teleop/target", 200, 290))
    for profile in ("piper", "train"):
        summary = export([folder / "bags"], folder / profile, ExportOptions(profile=load_profile(profile)))
        assert summary.exit_code == 0
    return folder


@pytest.mark.parametrize("profile", ["piper", "train"])
def test_a_dataset(made, tmp_path, capsys, profile):
    page = tmp_path / "report.html"
    code = main(["validate", str(made / profile), "--html", str(page)])
    assert code in (0, 3)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    root = read_page(page)
    printed = capsys.readouterr().out
    counts = root.of_class("counts")[0].words()
    for level, word in (("error:", "error"), ("warning:", "warning")):
        listed = sum(line.startswith(level) for line in printed.splitlines())
        assert (f"{listed} {word}" in counts) == (listed > 0)
    consumers = [row.all("th")[0].words() for row in root.all("table")[0].all("tr")[1:]]
    assert len(consumers) == 7
    episodes = root.of_class("episode")
    assert [e.all("b")[0].words() for e in episodes] == ["episode 0", "episode 1"]
    assert episodes[0].of_class("task")[0].words() == "stack <b>the</b> cups & saucers \U0001f9ca"
    assert [len(e.of_class("strip")[0].all("img")) for e in episodes] == [8, 8]
    titles = [f.all("b")[0].words() for f in episodes[0].of_class("plot")]
    assert {"arm_eef x", "arm_eef y", "arm_eef z", "gripper", "arm_joint", "row to newest frame"} <= set(
        titles
    )
    assert {"target_eef", "cam"} <= set(titles)  # histograms of ages
    assert "state" not in titles  # not twice


def test_the_gap_is_marked(made, tmp_path):
    page = tmp_path / "report.html"
    main(["validate", str(made / "piper"), "--html", str(page), "--quick"])
    gapped = read_page(page).of_class("episode")[1]
    figure = next(f for f in gapped.of_class("plot") if f.words().startswith("arm_eef x"))
    assert len(figure.of_class("band")) == 1
    assert "no rows from 0.170 to 0.285 s" in figure.words()
    assert gapped.of_class("strip")[0].all("figcaption")[0].words().endswith("not decoded")


def test_bags(made, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["validate", str(made / "bags"), "--html", str(page), "--profile", "train"]) == 0
    assert "2 bags, 36 rows, 0 errors, 3 warnings" in capsys.readouterr().out
    assert len(read_page(page).of_class("episode")) == 2
    assert main(["validate", str(made / "bags"), "--fail-on", "warn"]) == 3


def test_options_of_bags_are_not_for_datasets(made, capsys):
    assert main(["validate", str(made / "piper"), "--profile", "train"]) == 1
    assert "--profile is for bags" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["piper", "bags"])
def test_a_page_that_cannot_be_written(made, tmp_path, capsys, what):
    assert main(["validate", str(made / what), "--html", str(tmp_path / "nowhere" / "r.html")]) == 1
    err = capsys.readouterr().err
    assert "the page cannot be written" in err
    assert "Traceback" not in err
