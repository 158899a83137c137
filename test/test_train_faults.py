"""The profile train where cameras and streams do not do as they should: marked and counted, never hidden."""

from dataclasses import replace

import numpy as np
import pytest
from export_cases import bag, cells, every, frame_messages, mp4, rows, run, session, sources, video_numbers
from sample_bags import MS, START, arm_messages

from piper_collect.config.schema import CameraSettings
from piper_collect.pipelines.validate import validate_dataset

pytestmark = pytest.mark.usefixtures("no_sync")

END_MS = 600
STAMPS_MS = every(100 / 3, 1, END_MS)


def export_of(folder, messages, config, **known):
    """The summary, and the rows of the only episode."""
    path = bag(folder / "episode_000000", messages, config, end_ms=END_MS, **known)
    summary = run(path, folder / "ds")
    return summary, rows(folder / "ds") if summary.exit_code == 0 else None


def arm(*, without=lambda topic, ms: False):
    for topic, at, message in arm_messages(END_MS // 5):
        if not without(topic, (at - START) // MS):
            yield topic, at, message


def test_frames_recorded_out_of_order_come_in_their_own_order(tmp_path):
    delays = [9.0] * len(STAMPS_MS)
    delays[5], delays[9] = 80.0, 50.0
    messages = [*arm(), *frame_messages("cam", STAMPS_MS, delays_ms=delays)]
    _, table = export_of(tmp_path, messages, session())
    assert video_numbers(mp4(tmp_path / "ds")) == list(range(len(table)))
    assert table["source_state.cam"].to_pylist() == [0] * len(table)
    assert sources(tmp_path / "ds")[0]["cameras"]["cam"]["dropped_not_increasing"] == 0


def test_of_a_frame_recorded_twice_the_first_is_shown_once(tmp_path):
    twice = [*STAMPS_MS[:5], STAMPS_MS[4], *STAMPS_MS[5:]]
    messages = [*arm(), *frame_messages("cam", twice)]
    _, table = export_of(tmp_path, messages, session())
    assert video_numbers(mp4(tmp_path / "ds")) == [n for n in range(len(table) + 1) if n != 5]
    assert table["source_state.cam"].to_pylist() == [0] * len(table)


def test_rows_begin_with_the_first_frame_of_the_last_camera(tmp_path):
    messages = [
        *arm(),
        *frame_messages("cam", STAMPS_MS),
        *frame_messages("late", every(100 / 3, 171, END_MS)),
    ]
    summary, table = export_of(tmp_path, messages, session(("cam", "late")))
    assert sources(tmp_path / "ds")[0]["t0_ns"] == START + 175 * MS
    assert summary.bags[0].counts["ticks_before_t0"] == 35
    assert summary.bags[0].counts["rows_before_t0"] == 5
    assert table["timestamp"][0].as_py() == 0
    # the frame of 167.7 ms is the newest of the first camera then, and lies before T0
    assert table["source_timestamp.cam"][0].as_py() == pytest.approx(-0.007333333, abs=1e-9)
    assert video_numbers(mp4(tmp_path / "ds", "cam"))[:3] == [5, 6, 7]
    assert video_numbers(mp4(tmp_path / "ds", "late"))[:3] == [0, 1, 2]


def test_a_camera_that_stops_is_held_marked_and_counted(tmp_path):
    stopped = [t for t in STAMPS_MS if t < 250]
    config = session(("cam", "wrist"), max_age_ms=60.0)
    messages = [*arm(), *frame_messages("cam", STAMPS_MS), *frame_messages("wrist", stopped)]
    summary, table = export_of(tmp_path, messages, config)
    last = len(stopped) - 1
    count = len(table)
    # rows at 5 + k/30 ms: the last frame is 4, 37 and then over 60 ms old
    states = [0] * (last + 1) + [1] + [2] * (count - last - 2)
    assert table["source_state.wrist"].to_pylist() == states
    assert video_numbers(mp4(tmp_path / "ds", "wrist")) == [min(k, last) for k in range(count)]
    assert video_numbers(mp4(tmp_path / "ds", "cam")) == list(range(count))
    source = sources(tmp_path / "ds")[0]
    assert source["marked_rows"] == {"repeated": {"wrist": 1}, "stale": {"wrist": count - last - 2}}
    assert source["counts"]["held_by_source"] == {"wrist": count - last - 2}
    assert source["cameras"]["wrist"]["repeated"] == count - last - 1
    notes = summary.bags[0].notes
    marked = f"marked 2 in source_state: wrist {count - last - 2}"
    assert f"rows that show a value older than its max_age_ms, {marked}" in notes
    assert "rows that show the same sample as the row before, marked 1 in source_state: wrist 1" in notes
    assert validate_dataset(tmp_path / "ds").report.ok


def test_a_stream_that_pauses_is_held_marked_and_counted(tmp_path):
    def paused(topic, ms):
        return topic == "/arm/joint_states" and 200 < ms < 400

    messages = [*arm(without=paused), *frame_messages("cam", STAMPS_MS)]
    summary, table = export_of(tmp_path, messages, session())
    at_ms = 5 + np.arange(len(table)) * 100 / 3
    age_ms = table["timestamp"].to_numpy() * 1000 - table["source_timestamp.arm_joint"].to_numpy() * 1000
    state = cells(table, "source_state.arm_joint")
    np.testing.assert_array_equal(state == 2, (at_ms > 195 + 50) & (at_ms < 400))
    np.testing.assert_array_equal(state == 1, (at_ms > 195 + 100 / 3) & (at_ms <= 195 + 50))
    assert age_ms[state < 2].max() <= 50 < age_ms[state == 2].min()
    # the value of 195 ms, the 39th tick, is held
    np.testing.assert_array_equal(
        cells(table, "observation.arm_joint")[state == 2, 0], np.full((state == 2).sum(), 0.039, np.float32)
    )
    assert cells(table, "source_state.gripper").tolist() == state.tolist()
    assert cells(table, "source_state.arm_eef").tolist() == [0] * len(table)
    stale = int((state == 2).sum())
    assert sources(tmp_path / "ds")[0]["marked_rows"]["stale"] == {"arm_joint": stale, "gripper": stale}
    assert any(
        note.endswith(f"marked 2 in source_state: arm_joint {stale}, gripper {stale}")
        for note in summary.bags[0].notes
    )


def test_a_camera_without_a_frame_in_time_leaves_no_dataset(tmp_path):
    messages = [*arm(), *frame_messages("cam", every(100 / 3, END_MS + 50, END_MS + 300))]
    summary, _ = export_of(tmp_path, messages, session())
    assert "no tick at which every source has a fresh value" in summary.bags[0].reason
    assert "cam none inside" in summary.bags[0].reason
    assert not (tmp_path / "ds").exists()


def optional(config, name):
    cameras = {**config.cameras, name: CameraSettings(required=False)}
    return replace(config, cameras=cameras)


def test_an_optional_camera_that_is_there_is_as_good_as_any(tmp_path):
    messages = [
        *arm(),
        *frame_messages("cam", STAMPS_MS),
        *frame_messages("side", every(100 / 3, 101, END_MS)),
    ]
    _, table = export_of(tmp_path, messages, optional(session(), "side"))
    # with one frame a row, rows can begin only where it has one
    assert sources(tmp_path / "ds")[0]["t0_ns"] == START + 105 * MS
    assert video_numbers(mp4(tmp_path / "ds", "side")) == list(range(len(table)))


def test_an_optional_camera_that_is_not_there_is_left_out_of_the_dataset(tmp_path):
    config = optional(session(), "side")
    messages = [*arm(), *frame_messages("cam", STAMPS_MS)]
    summary, table = export_of(tmp_path, messages, config)
    assert "source_state.side" not in table.column_names
    assert "no messages on /side/image_raw/compressed (optional side)" in summary.bags[0].notes
    start = START + 10**10
    more = [*arm_messages(END_MS // 5, start=start)]
    for name in ("cam", "side"):
        more += frame_messages(name, STAMPS_MS, start=start)
    second = bag(tmp_path / "episode_000001", more, config, end_ms=END_MS, start=start)
    refused = run(second, tmp_path / "ds")
    assert "the dataset has another feature source_timestamp.side" in refused.bags[0].reason
    together = run(sorted(tmp_path.glob("episode_*")), tmp_path / "both")
    assert [b.status for b in together.bags] == ["exported", "failed"]
    assert "other cameras than the dataset" in together.bags[1].reason
    assert "expected ['cam'], got ['cam', 'side']" in together.bags[1].reason
