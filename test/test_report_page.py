"""The HTML page: well formed, self-contained, safe, bounded, and with the numbers in it."""

import base64
import io
from dataclasses import replace

import numpy as np
import pytest
from page_reading import read_page
from PIL import Image

from piper_collect.core.findings import Finding, Report
from piper_collect.core.survey import (
    CameraSurvey,
    ColumnSurvey,
    ConsumerOutlook,
    DatasetSurvey,
    EpisodeSurvey,
    LagSurvey,
    PictureSurvey,
    Thumbnail,
)
from piper_collect.pipelines.validation_report import ValidationPage
from piper_collect.report.page import PageWriter
from piper_collect.report.views import EpisodeView, PageView

NASTY = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></details><h1>out</h1>",
    "&lt;b&gt; &amp; 'quoted' `tick`",
    "\u202egnp.exe \u0000\u0001\u007f\u0085 \ufffe tab\tnew\nline",
    "stack the cups \U0001f9ca 杯を積む كأس",
    "\ud83d lone surrogate",
    "javascript:alert(1)",
]


def found(level="error", code="pts", where="episode 0", text="presentation times do not increase"):
    return Finding(level=level, code=code, where=where, text=text)


def camera(key="observation.images.cam_front", count=120, noise=False, size=(120, 160)):
    pts = np.arange(count) / 30.0
    random = np.random.default_rng(0)
    stills = [random.integers(0, 255, (*size, 3), np.uint8) for _ in range(8)]
    if not noise:
        stills = [np.full((*size, 3), (200, 30, 20 * k), np.uint8) for k in range(8)]
    pictures = PictureSurvey(
        size=(480, 640),
        mean=np.full(count, 90.0),
        contrast=np.full(count, 20.0),
        change=np.concatenate(([np.nan], np.full(count - 1, 2.0))),
        key=np.zeros(count, dtype=bool),
        colour=np.zeros((2, 3)),
        thumbnails=tuple(Thumbnail(time_s=k / 2, pixels=p) for k, p in enumerate(stills)),
    )
    newest = np.arange(count)
    return CameraSurvey(key=key, pts_s=pts, newest=newest, gap_ms=np.full(count, 12.25), pictures=pictures)


def column(key, names, values):
    return ColumnSurvey(key=key, names=tuple(names), values=np.asarray(values, dtype=np.float64))


def survey(index=0, rows=120, task="pick the cube", **changes):
    row_s = np.arange(rows) / 30.0
    pose = np.column_stack([np.sin(row_s + k) for k in range(7)])
    names = ["x", "y", "z", "qw", "qx", "qy", "qz"]
    columns = {
        "observation.arm_joint": column("", [f"joint{k}" for k in range(1, 7)], pose[:, :6]),
        "observation.arm_eef": column("", names, pose),
        "action.arm_eef": column("", names, pose + 0.01),
        "observation.gripper": column("", ["width"], pose[:, :1]),
        "action.gripper": column("", ["width"], pose[:, 1:2]),
        "timestamp": column("", [], row_s[:, None]),
    }
    made = EpisodeSurvey(
        index=index,
        task=task,
        row_s=row_s,
        step_ms=np.diff(row_s) * 1e3,
        columns=columns,
        cameras={c.key: c for c in (camera(count=rows), camera("observation.images.cam_wrist", rows))},
        age_ms={"arm_joint": np.full(rows, 3.2), "cam_front": np.full(rows, 17.0)},
        skew_ms=np.full(rows, 21.0),
        lag=LagSurvey(lag_ms=61.5, correlation=0.98, moved_m=0.7),
        counts={"slots": rows, "frames": {"cam_front": {"kept": 121}, "cam_wrist": {"kept": 119}}},
        origin={"session": "pick_1", "bag": f"episode_{index:06d}", "t0_ns": 1_700_000_000_123_456_789},
    )
    return replace(made, **changes)


def dataset(**changes):
    made = DatasetSurvey(
        root="/data/cups",
        version="v2.0",
        robot_type="piper",
        fps=30.0,
        episodes=2,
        rows=1240,
        duration_s=41.3,
        cameras=("observation.images.cam_front", "observation.images.cam_wrist"),
        tasks=("pick the cube",),
        sessions=("pick_1",),
        outlooks=(
            ConsumerOutlook(consumer="LeRobot 0.3.3", loads=False, reason="117 steps are off by 6.7 ms"),
            ConsumerOutlook(consumer="GR00T n1.7", loads=True, worst_ms=33.7, wrong_rows=41, note="rewrites"),
            ConsumerOutlook(consumer="GR00T n1.6", loads=True, worst_ms=0.5),
        ),
    )
    return replace(made, **changes)


def report(*findings, subject="/data/cups", **facts):
    return Report(subject=subject, findings=tuple(findings), facts=facts)


def write(path, surveys, findings=(), whole=None, **facts):
    with ValidationPage(path) as page:
        for one in surveys:
            page.add(one, [f for f in findings if f.where.startswith(f"episode {one.index}")])
        page.finish(report(*findings, **facts), whole or dataset())
    return read_page(path)


def plot(root, title):
    return next(f for f in root.all("figure") if f.all("figcaption")[0].words().startswith(title))


def test_the_numbers_are_in_the_page(tmp_path):
    findings = [
        found(),
        found("warning", "few-frames", "episode 1, cam_front", "90 frames for 120 rows"),
        found("warning", "few-frames", "episode 1, cam_wrist", "91 frames for 120 rows"),
        found("info", "lag", "dataset", "measured trails commanded by 62 ms"),
    ]
    root = write(tmp_path / "r.html", [survey(0), survey(1, task="stack")], findings, rows=1240, spread=1.5)
    banner = root.all("header")[0]
    assert "error" in banner.attributes["class"].split()
    assert banner.words() == (
        "✕ Dataset /data/cups Not good: there are errors 1 error 2 warnings 1 note 2 of 3 consumers load it "
        "what: LeRobot v2.0, robot piper, cam_front, cam_wrist task: “pick the cube”"
    )
    assert [t.words() for t in root.of_class("tile")] == [
        "2 episodes", "1,240 rows", "41.3 s duration", "30 rows a second", "2 cameras",
    ]  # fmt: skip
    table = root.all("table")[0]
    assert [row.words() for row in table.all("tr")[1:]] == [
        "LeRobot 0.3.3 ✕ refuses 117 steps are off by 6.7 ms",
        "GR00T n1.7 ! wrong frames 33.7 ms 41 rewrites",
        "GR00T n1.6 ✓ loads 0.5 ms 0",
    ]
    words = root.words()
    assert "warning few-frames × 2" in words
    assert words.count("90 frames for 120 rows") == 2  # among all findings, and with its episode
    assert "lag_ms 61.5" in words
    assert "t0_ns 1700000000123456789" in words
    assert "cam_wrist 119" in words
    assert "max 12.2 ms" in words
    assert "spread 1.5" in words


def test_good_and_doubtful_datasets_are_told_apart(tmp_path):
    good = write(tmp_path / "a.html", [survey()], [found("info", "lag", "dataset", "62 ms")])
    assert "Good: nothing wrong was found" in good.all("header")[0].words()
    assert "good" in good.all("header")[0].attributes["class"].split()
    doubtful = write(tmp_path / "b.html", [survey()], [found("warning")])
    assert "Worth a look" in doubtful.all("header")[0].words()


def test_findings_left_out_of_the_report_are_counted(tmp_path):
    with PageWriter(tmp_path / "r.html") as page:
        many = tuple(found(text=f"fault {k}") for k in range(60))
        page.finish(PageView(title="Dataset", report=Report(
            subject="x", findings=many, facts={}, unlisted={"pts": 940})))  # fmt: skip
    words = read_page(tmp_path / "r.html").words()
    assert "and 940 not listed" in words
    assert "pts × 1000" in words
    assert "fault 39" in words
    assert "fault 40" not in words
    assert "and 960 more of this kind" in words


@pytest.mark.parametrize("text", NASTY)
def test_any_text_is_shown_and_nothing_of_it_runs(tmp_path, text):
    named = camera(key=f"observation.images.{text}")
    nasty = survey(
        task=text,
        columns={"observation.state": column("", [text, "b"], np.zeros((120, 2)))},
        cameras={text: named},
        age_ms={text: np.ones(120)},
        origin={text: text, "list": [text]},
    )
    outlook = ConsumerOutlook(consumer=text, loads=False, reason=text, note=text)
    whole = dataset(root=text, robot_type=text, tasks=(text,), cameras=(text,), outlooks=(outlook,))
    findings = [found(code=text, where=f"episode 0, {text}", text=text)]
    root = write(tmp_path / "r.html", [nasty], findings, whole, **{text: {text: text}})
    task = root.of_class("task")[0]
    if text.isprintable():
        assert task.all("bdi")[0].text == text
        assert task.attributes["title"] == text
    assert len(root.all("h1")) == 1


def test_what_html_cannot_hold_is_spelled_out(tmp_path):
    root = write(tmp_path / "r.html", [survey(task="a\x00b\ud800c\x1bd\x85e")])
    assert root.of_class("task")[0].words() == "a\\x00b\\ud800c\\x1bd\\x85e"


def test_pictures_are_in_the_page_with_a_text_each(tmp_path):
    root = write(tmp_path / "r.html", [survey()])
    stills = [i for strip in root.of_class("strip") for i in strip.all("img")]
    assert len(stills) == 16
    assert [s.attributes["alt"] for s in stills[:2]] == ["cam_front at 0.00 s", "cam_front at 0.50 s"]
    last = Image.open(io.BytesIO(base64.b64decode(stills[7].attributes["src"].partition(",")[2])))
    assert (last.format, last.size) == ("JPEG", (144, 108))
    np.testing.assert_allclose(np.asarray(last).mean(axis=(0, 1)), (200, 30, 140), atol=4)
    assert root.of_class("strip")[1].all("figcaption")[0].words() == "cam_wrist 640 × 480, 120 frames"


def test_every_plot_says_what_it_shows(tmp_path):
    root = write(tmp_path / "r.html", [survey()])
    for drawing in root.all("svg"):
        assert drawing.attributes["aria-label"]
        assert drawing.children[0].tag == "title"
    said = plot(root, "arm_eef x m commanded measured").all("title")[0].words()
    assert said == "arm_eef x: commanded -0.7246 to 1.01 m, measured -0.7346 to 1 m"
    assert [k.words() for k in plot(root, "arm_joint rad").of_class("key")] == [
        f"joint{k}" for k in range(1, 7)
    ]
    assert "max 21.0 ms" in plot(root, "skew of a row").words()


def test_missing_rows_are_marked_and_break_the_lines(tmp_path):
    keep = np.r_[0:40, 60:120]
    one = survey()
    cut = {k: replace(c, values=c.values[keep]) for k, c in one.columns.items()}
    row_s = one.row_s[keep]
    step_ms = np.diff(row_s) * 1e3
    gappy = replace(one, row_s=row_s, step_ms=step_ms, columns=cut, cameras={})
    root = write(tmp_path / "r.html", [gappy])
    figure = plot(root, "arm_eef x")
    assert figure.of_class("band")
    assert "no rows from 1.300 to 2.000 s" in figure.words()
    assert [p.attributes["d"].count("M") for p in figure.of_class("line")] == [2, 2]


def test_an_episode_is_linked_and_unfolds_by_its_link(tmp_path):
    root = write(tmp_path / "r.html", [survey(0), survey(1)], [found(where="episode 1")])
    bars = root.of_class("bar")
    assert [b.attributes["class"] for b in bars] == ["bar plain", "bar error"]
    links = [a for a in root.all("a") if a.of_class("bar")]
    assert [a.attributes["href"] for a in links] == ["#episode-0", "#episode-1"]
    episodes = root.of_class("episode")
    assert all("open" not in e.attributes for e in episodes)
    assert episodes[1].all("div")[0].attributes["id"] == "episode-1"


def test_columns_of_other_peoples_datasets_are_drawn(tmp_path):
    values = np.cumsum(np.ones((120, 8)), axis=0)
    same = {
        "observation.state": column("", [f"m{k}" for k in range(8)], values),
        "action": column("", [f"m{k}" for k in range(8)], values + 1),
    }
    root = write(tmp_path / "a.html", [survey(columns=same)])
    assert "commanded 2 to 121" in plot(root, "state m7").words()
    other = {
        "observation.state": column("", [], values),
        "action": column("", ["a", "b"], values[:, :2]),
    }
    root = write(tmp_path / "b.html", [survey(columns=other)])
    assert plot(root, "state 0 to 5")
    assert "a 1 to 120" in plot(root, "commanded").words()


def test_an_empty_episode_and_one_row_are_shown(tmp_path):
    empty = EpisodeSurvey(
        index=0, task="", row_s=np.empty(0), step_ms=np.empty(0), columns={}, cameras={}
    )  # fmt: skip
    one = survey(1, rows=1)
    root = write(tmp_path / "r.html", [empty, one])
    assert [e.all("summary")[0].words() for e in root.of_class("episode")] == [
        "episode 0 0 rows, 0.0 s",
        "episode 1 pick the cube 1 rows, 0.0 s",
    ]


def test_values_that_are_not_numbers_do_not_spoil_a_plot(tmp_path):
    values = np.full((120, 2), np.nan)
    values[3] = (np.inf, 1e300)
    values[4] = (-np.inf, -1e300)
    root = write(tmp_path / "r.html", [survey(columns={"observation.state": column("", ["a", "b"], values)})])
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert plot(root, "state")
    assert ' d="' in text
    assert not any("nan" in p.attributes["d"] for p in root.all("path"))


def test_the_bytes_of_an_episode_are_bounded(tmp_path):
    def size(rows, cameras, columns):
        random = np.random.default_rng(1)
        wild = {
            "observation.state": column("", [], random.normal(size=(rows, columns))),
            "action": column("", [], random.normal(size=(rows, columns))),
        }
        many = {f"c{k}": camera(f"c{k}", rows, noise=True, size=(360, 480)) for k in range(cameras)}
        big = survey(rows=rows, columns=wild, cameras=many, task="t" * 100_000, counts={
            f"k{k}": {f"j{j}": "v" * 500 for j in range(60)} for k in range(60)})  # fmt: skip
        path = tmp_path / "r.html"
        many_findings = [found(text="x" * 5000, code=f"c{k}") for k in range(500)]
        write(path, [big], many_findings)
        alone = path.stat().st_size
        write(path, [], many_findings)
        return alone - path.stat().st_size

    assert size(20_000, 10, 44) < 600_000
    assert size(100, 1, 2) < size(20_000, 10, 44)


def test_a_page_that_is_not_finished_leaves_the_old_one(tmp_path):
    path = tmp_path / "r.html"
    path.write_text("old")

    def interrupted():
        with PageWriter(path) as page:
            page.add_episode(EpisodeView(label="episode 0", anchor="e", task="", line="", size=1.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    assert path.read_text() == "old"


def test_the_same_survey_gives_the_same_bytes(tmp_path):
    for name in ("a.html", "b.html"):
        write(tmp_path / name, [survey()], [found()])
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_rows_without_a_time_are_counted(tmp_path):
    untimed = survey(row_s=np.empty(0), step_ms=np.empty(0))
    figure = plot(write(tmp_path / "r.html", [untimed]), "arm_eef x")
    assert figure.all("text")[-1].text == "rows"


def test_of_many_columns_those_that_move_are_drawn(tmp_path):
    values = np.zeros((120, 40))
    values[:, 30:] = np.arange(120)[:, None]
    same = {k: column("", [f"m{n}" for n in range(40)], values) for k in ("observation.state", "action")}
    root = write(tmp_path / "r.html", [survey(columns=same)])
    assert "Motion (16 of 40 plots)" in [h.text for h in root.all("h3")]
    titles = [f.all("b")[0].words() for f in root.of_class("plot")]
    assert [t for t in titles if t.startswith("state")] == [
        f"state m{n}" for n in (*range(6), *range(30, 40))
    ]
