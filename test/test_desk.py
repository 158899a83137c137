"""What the person at the desk sees, as values: topics judged, episodes, the disk's minutes, the reference."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dataset_cases import add, episode, open_writer
from desk_cases import save_record, write_reference
from hypothesis import given
from hypothesis import strategies as st

from piper_collect.config.load import load_session
from piper_collect.config.rates import expected_rates
from piper_collect.config.schema import CameraSettings, DeviceSettings, SessionConfig
from piper_collect.core.desk import EpisodeRow, TopicReport, fill_rate, minutes_left, topic_row
from piper_collect.pipelines.episode_ledger import EpisodeLedger
from piper_collect.pipelines.reference_view import read_reference

GOOD = TopicReport(name="/arm/joint_states", required=True, rate_hz=199.0, age_s=0.01, lost=0, reason="")
ROW = EpisodeRow(number=0, seconds=10.0, outcome="success", lost=0, flaws=(), size_bytes=20_000_000)


# -- topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected_hz", "verdict", "reason"),
    [
        ({}, 200.0, "good", ""),
        ({}, None, "good", ""),
        ({"rate_hz": 150.0}, 200.0, "warning", "150.0 Hz where 200 are expected"),
        ({"rate_hz": 60.0}, 30.0, "warning", "60.0 Hz where 30 are expected"),
        ({"lost": 1}, 200.0, "bad", "1 message of this episode lost"),
        ({"lost": 3, "required": False}, 200.0, "warning", "3 messages of this episode lost"),
        ({"rate_hz": 0.0, "age_s": 4.0, "reason": "silent for 4.0 s"}, 200.0, "bad", "silent for 4.0 s"),
        ({"rate_hz": 0.0, "age_s": -1.0, "required": False}, None, "idle", ""),
        ({"rate_hz": 0.0, "age_s": 9.0, "required": False}, 30.0, "idle", ""),
        ({"age_s": 2.5}, 200.0, "warning", "the newest is stamped 2.5 s ago"),
        ({"age_s": -0.3}, 200.0, "warning", "stamped 0.30 s ahead of this computer's clock"),
        ({"reason": "unknown type", "required": False}, None, "warning", "unknown type"),
        (
            {"reason": "2 publishers send on it", "lost": 2},
            200.0,
            "bad",
            "2 publishers send on it; 2 messages of this episode lost",
        ),
    ],
)
def test_a_topic_is_judged_with_the_reason(changes, expected_hz, verdict, reason) -> None:
    row = topic_row(replace(GOOD, **changes), expected_hz)
    assert (row.verdict, row.reason) == (verdict, reason)


@given(
    rate_hz=st.floats(0, 500),
    age_s=st.floats(-5, 50),
    lost=st.integers(0, 5),
    required=st.booleans(),
    reason=st.sampled_from(["", "nobody publishes it"]),
    expected_hz=st.one_of(st.none(), st.floats(1, 200)),
)
def test_what_is_not_good_always_has_a_reason(rate_hz, age_s, lost, required, reason, expected_hz) -> None:
    report = TopicReport(name="/t", required=required, rate_hz=rate_hz, age_s=age_s, lost=lost, reason=reason)
    row = topic_row(report, expected_hz)
    assert (row.reason == "") == (row.verdict in ("good", "idle"))
    assert row.verdict != "bad" or required
    assert row.verdict != "good" or rate_hz > 0


def test_expected_rates_are_those_that_the_configuration_sets() -> None:
    default = load_session("default")
    rates = expected_rates(default)
    assert rates["/teleop/target"] == rates["/arm/joint_states"] == rates["/arm/flange_pose"] == 200.0
    assert rates["/cam_front/image_raw/compressed"] == rates["/cam_front/camera_info"] == 30.0
    assert "/quest/input" not in rates
    elsewhere = replace(
        SessionConfig(),
        session=replace(default.session, namespace="left", control_rate_hz=100.0),
        devices=DeviceSettings(arm="none", cameras="none", operator="none"),
        cameras={"top": CameraSettings(topic="/top/color", transport="raw", fps=15.0)},
    )
    expected = {"/left/teleop/target": 100.0, "/top/color": 15.0, "/top/camera_info": 15.0}
    assert expected_rates(elsewhere) == expected


# -- episodes and the disk ------------------------------------------------------------------------


def test_episodes_are_read_as_they_appear_and_go(tmp_path: Path) -> None:
    ledger = EpisodeLedger()
    assert ledger.rows(tmp_path / "nowhere") == ()
    save_record(tmp_path, 10, flaws=("/a: no message recorded",))
    first = save_record(tmp_path, 2)
    rows = ledger.rows(tmp_path)
    assert [(row.number, row.seconds, row.outcome, row.lost) for row in rows] == [
        (2, 4.5, "success", 3),
        (10, 4.5, "interrupted", 3),
    ]
    assert rows[1].flaws == ("/a: no message recorded",)
    assert rows[0].size_bytes == 1000 + (first / "episode.json").stat().st_size
    shutil.rmtree(first)
    assert [row.number for row in ledger.rows(tmp_path)] == [10]


def test_the_running_episode_is_what_lies_in_its_folder(tmp_path: Path) -> None:
    ledger = EpisodeLedger()
    assert ledger.running_bytes(tmp_path, 3) == 0
    (tmp_path / ".recording/episode_000003").mkdir(parents=True)
    (tmp_path / ".recording/episode_000003/bag.mcap").write_bytes(bytes(70))
    assert ledger.running_bytes(tmp_path, 3) == 70


def test_the_disk_fills_as_the_last_episodes_did() -> None:
    old = replace(ROW, size_bytes=900_000_000)
    assert fill_rate([old, ROW, ROW, ROW], 50.0, 1) == 2_000_000.0
    assert fill_rate([replace(ROW, seconds=0.5)], 10.0, 30_000_000) == 3_000_000.0
    assert fill_rate([], 1.0, 30_000_000) is None
    assert fill_rate([], 0.0, 0) is None


def test_minutes_end_where_no_episode_may_start_any_more() -> None:
    assert minutes_left(13_000_000_000, 1e9, 2_000_000.0) == 100.0
    assert minutes_left(500, 1e9, 2_000_000.0) == 0.0
    assert minutes_left(13_000_000_000, 1e9, None) is None


# -- the reference --------------------------------------------------------------------------------


def test_the_reference_is_the_first_frame_of_the_first_episode(tmp_path: Path) -> None:
    picture = np.full((48, 64, 3), (200, 40, 90), np.uint8)
    write_reference(tmp_path / "set", {"cam_front": picture, "cam_top": picture})
    view = read_reference(tmp_path / "set", ("cam_front", "cam_wrist"))
    assert list(view.pictures) == ["cam_front"]
    assert view.pictures["cam_front"].shape == (48, 64, 3)
    assert np.abs(view.pictures["cam_front"].astype(int) - picture).max() < 12
    assert view.notes == (
        "cam_wrist has no picture there: the dataset's cameras are cam_front, cam_top",
        "the dataset's cam_top is no camera of this session",
    )


def test_what_cannot_be_had_is_said_and_stops_nothing(tmp_path: Path) -> None:
    assert "is no dataset" in read_reference(tmp_path / "none", ("cam",)).notes[0]
    add(open_writer(tmp_path / "set"), episode())
    (video,) = (tmp_path / "set").rglob("*cam_front/*.mp4")
    video.write_bytes(b"nothing")
    view = read_reference(tmp_path / "set", ("cam_front", "cam_wrist"))
    assert list(view.pictures) == ["cam_wrist"]
    assert view.notes[0].startswith("cam_front: ")
    assert "not a readable video" in view.notes[0]
