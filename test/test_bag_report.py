"""The HTML page of bags: whole ones, faulty ones and unreadable ones, in one file that loads nothing."""

import pytest
from bag_faults import FAULTS, bag, messages
from page_reading import read_page

from piper_collect.config.profile import load_profile
from piper_collect.errors import ConfigError
from piper_collect.pipelines.bag_report import BagPage
from piper_collect.pipelines.validate_bag import validate_bag


def write(path, bags, profile="piper"):
    made = load_profile(profile)
    with BagPage(path, made) as page:
        page.finish(validate_bag(bags, profile=made, on_bag=page.add))
    return read_page(path)


@pytest.mark.parametrize("profile", ["piper", "train"])
def test_a_clean_bag(tmp_path, profile):
    root = write(tmp_path / "r.html", bag(tmp_path / "episode_000000", messages()), profile)
    assert "Good: nothing wrong was found" in root.all("header")[0].words()
    assert [t.words() for t in root.of_class("tile")] == [
        "1 bags", "378 messages", "18 rows an export would make", "0.6 s recorded",
    ]  # fmt: skip
    summary = root.of_class("episode")[0].all("summary")[0]
    assert summary.words() == "episode_000000 pick the cube 18 rows, 378 messages, 0.6 s"
    strip = root.of_class("strip")[0]
    assert strip.all("figcaption")[0].words() == "cam 64 × 48, jpeg"
    assert len(strip.all("img")) == 8
    titles = [f.all("b")[0].words() for f in root.of_class("plot")]
    assert {"arm_eef x", "gripper", "arm_joint", "cam", "/teleop/target"} <= set(titles)
    assert "rate_hz" in root.words()


def test_every_faulty_bag_at_once(tmp_path):
    for number, (build, *_) in enumerate(FAULTS.values()):
        build(tmp_path / "rec" / f"episode_{number:06d}")
    (tmp_path / "rec" / "last").mkdir()
    (tmp_path / "rec" / "last" / "last_0.mcap").write_bytes(b"")
    root = write(tmp_path / "r.html", tmp_path / "rec")
    episodes = root.of_class("episode")
    assert len(episodes) == len(FAULTS) + 1
    lines = [e.of_class("line")[0].words() for e in episodes]
    assert lines.count("cannot be read") == 1
    assert sum(line.startswith("no rows") for line in lines) > 5
    for (_, *expected), episode in zip(FAULTS.values(), episodes, strict=False):
        for one in expected:
            if one is not None:
                assert one[1] in [c.words() for c in episode.all("code")]


def test_a_page_that_cannot_be_written(tmp_path):
    profile = load_profile("piper")
    with pytest.raises(ConfigError, match=r"the page cannot be written .*No such file"):
        BagPage(tmp_path / "nowhere" / "r.html", profile)
    with pytest.raises(ConfigError, match="got a folder"):
        BagPage(tmp_path, profile)
