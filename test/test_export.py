"""Export end to end: small bags in, a dataset out; literal rows, skips, failures, repeats."""

import json
import os

import av
import numpy as np
import pyarrow.parquet as pq
import pytest
from sample_bags import (
    MS,
    START,
    arm_messages,
    camera_messages,
    custom,
    joint_state,
    jpeg_image,
    picture,
    raw_image,
    sample_bag,
    write_bag,
)

from piper_collect.config.load import dump_session, load_session
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig, SessionSettings
from piper_collect.core.kinematics import PiperKinematics
from piper_collect.errors import BagError
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.validate import validate_dataset

NO_CAMERAS = SessionConfig(cameras={})


def run(path, root, **options):
    on_progress = options.pop("on_progress", None)
    return export(
        [path], root, ExportOptions(profile=load_profile("piper"), **options), on_progress=on_progress
    )


def run_arm(path, root, **options):
    """Export bags of the arm alone."""
    return run(path, root, config=NO_CAMERAS, **options)


def arm_bag(path, *, start=START, count=60, drop=lambda message: False, **more):
    messages = [m for m in arm_messages(count, start=start) if not drop(m)]
    return write_bag(path, messages, custom(start=start, end_ms=5 * count, **more))


def rows(root, index=0):
    return pq.read_table(root / f"data/chunk-000/episode_{index:06d}.parquet")


def column(table, key):
    return np.array(table[key].to_pylist())


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tree(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def statuses(summary):
    return [bag.status for bag in summary.bags]


def test_rows_are_as_recorded(tmp_path):
    summary = run_arm(arm_bag(tmp_path / "episode_000000"), tmp_path / "ds")
    table = rows(tmp_path / "ds")
    assert (summary.exit_code, statuses(summary)) == (0, ["exported"])
    # slots of 33.3 ms against ticks of 5 ms; the first width in each
    expected_ms = [0, 35, 70, 100, 135, 170, 200, 235, 270]
    np.testing.assert_array_equal(
        column(table, "timestamp"), np.array([t / 1000 for t in expected_ms], dtype=np.float32)
    )
    tick = np.array(expected_ms) / 5 * 1e-3
    np.testing.assert_allclose(column(table, "observation.arm_joint")[:, 0], tick, atol=1e-7)
    np.testing.assert_allclose(column(table, "observation.arm_joint")[0, 1:], [0.1, -0.2, 0.3, -0.4, 0.5])
    # ROS (0, 0, 0.6, 0.8) and (0, 0.6, 0, 0.8) are w-last
    np.testing.assert_allclose(column(table, "observation.arm_eef")[3], [0.02, 0.2, 0.3, 0.8, 0, 0, 0.6])
    np.testing.assert_allclose(column(table, "action.arm_eef")[3], [0.02, 0.25, 0.35, 0.8, 0, 0.6, 0])
    np.testing.assert_allclose(column(table, "observation.gripper"), [[0.05]] * 9)
    np.testing.assert_allclose(column(table, "action.gripper"), [[0.025]] * 9)


@pytest.fixture(autouse=True)
def float32_tolerance(monkeypatch):
    """Parquet cells are float32: compare to seven digits."""
    original = np.testing.assert_allclose

    def close(actual, desired, rtol=1e-6, atol=1e-8):
        original(actual, desired, rtol=rtol, atol=atol)

    monkeypatch.setattr(np.testing, "assert_allclose", close)


def test_a_dataset_without_cameras_checks_clean(tmp_path):
    run_arm(arm_bag(tmp_path / "episode_000000"), tmp_path / "ds")
    assert validate_dataset(tmp_path / "ds").report.ok
    assert not (tmp_path / "ds" / "videos").exists()


def test_two_bags_become_two_episodes_in_the_order_of_their_start(tmp_path):
    arm_bag(tmp_path / "rec" / "s" / "episode_000000", start=START + 10**10)
    arm_bag(tmp_path / "rec" / "s" / "episode_000001", start=START)
    summary = run_arm(tmp_path / "rec", tmp_path / "ds")
    assert [(b.bag.name, b.episodes) for b in summary.bags] == [
        ("episode_000001", (0,)),
        ("episode_000000", (1,)),
    ]
    first, second = (rows(tmp_path / "ds", i) for i in (0, 1))
    assert column(second, "timestamp")[0] == 0
    assert column(second, "frame_index").tolist() == list(range(9))
    assert column(second, "index").tolist() == list(range(9, 18))
    assert len(first) == 9
    assert len(lines(tmp_path / "ds/meta/tasks.jsonl")) == 1
    assert len(lines(tmp_path / "ds/meta/collection_sessions.jsonl")) == 1
    sources = lines(tmp_path / "ds/meta/episode_sources.jsonl")
    assert [s["t0_ns"] for s in sources] == [START, START + 10**10]
    assert validate_dataset(tmp_path / "ds").report.ok


def test_a_second_run_changes_nothing_and_a_copy_is_known(tmp_path):
    bag = sample_bag(tmp_path / "s" / "episode_000000")
    run(bag, tmp_path / "ds")
    before = tree(tmp_path / "ds")
    again = run(bag, tmp_path / "ds")
    assert (statuses(again), again.exit_code, again.bags[0].episodes) == (["held"], 0, (0,))
    os.rename(bag, tmp_path / "s" / "another_name")
    assert statuses(run(tmp_path / "s", tmp_path / "ds")) == ["held"]
    assert tree(tmp_path / "ds") == before


def test_the_same_bags_give_the_same_bytes(tmp_path):
    bag = sample_bag(tmp_path / "episode_000000")
    run(bag, tmp_path / "a")
    run(bag, tmp_path / "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_an_interrupted_bag_is_skipped_unless_allowed(tmp_path):
    arm_bag(tmp_path / "rec" / "episode_000000")
    interrupted = arm_bag(tmp_path / "rec" / "episode_000001", start=START + 10**10, outcome="interrupted")
    summary = run_arm(tmp_path / "rec", tmp_path / "ds")
    assert (statuses(summary), summary.exit_code) == (["exported", "skipped"], 0)
    assert summary.bags[1].reason == "the recording was interrupted"
    allowed = run_arm(interrupted, tmp_path / "ds", allow_incomplete=True)
    assert statuses(allowed) == ["exported"]
    assert "not whole: the recording was interrupted" in allowed.bags[0].notes
    source = lines(tmp_path / "ds/meta/episode_sources.jsonl")[1]
    assert source["recording"]["incomplete_reasons"] == ["the recording was interrupted"]


def test_a_bag_cut_short_is_never_exported_silently(tmp_path):
    bag = arm_bag(tmp_path / "episode_000000", count=2000)
    storage = bag / "episode_000000_0.mcap"
    os.truncate(storage, storage.stat().st_size * 3 // 4)
    (bag / "metadata.yaml").unlink()
    skipped = run_arm(bag, tmp_path / "ds")
    assert statuses(skipped) == ["skipped"]
    assert "cut short" in skipped.bags[0].reason
    assert not (tmp_path / "ds").exists()


def test_a_bag_that_fails_does_not_stop_the_others_and_leaves_nothing(tmp_path):
    def broken(message):
        return message[0] == "/teleop/target"

    arm_bag(tmp_path / "rec" / "episode_000000", drop=broken)
    arm_bag(tmp_path / "rec" / "episode_000001", start=START + 10**10)
    summary = run_arm(tmp_path / "rec", tmp_path / "ds")
    assert (statuses(summary), summary.exit_code) == (["failed", "exported"], 1)
    reason = summary.bags[0].reason
    assert "no messages on /teleop/target (needed for target_eef, target_gripper)" in reason
    assert "\n" not in reason
    assert validate_dataset(tmp_path / "ds").report.facts["episodes"] == 1
    assert validate_dataset(tmp_path / "ds").report.ok


def test_when_all_fail_there_is_no_dataset(tmp_path):
    bag = sample_bag(tmp_path / "episode_000000", cameras=("cam_front",))
    summary = run(bag, tmp_path / "ds")
    assert "no frames on /cam_wrist/image_raw/compressed" in summary.bags[0].reason
    assert not (tmp_path / "ds").exists()


def test_a_damaged_image_fails_its_bag_only(tmp_path):
    def with_images(index, spoil):
        start = START + index * 10**10
        messages = [*arm_messages(60, start=start), *camera_messages("cam", range(2, 300, 33), start=start)]
        if spoil:
            messages[-3][2].data = messages[-3][2].data[:200]
        text = dump_session(SessionConfig(cameras={"cam": CameraSettings()}))
        known = custom(start=start, end_ms=300, session_config=text)
        return write_bag(tmp_path / "rec" / f"episode_{index:06d}", messages, known)

    for index, spoil in enumerate((False, True, False)):
        with_images(index, spoil)
    summary = run(tmp_path / "rec", tmp_path / "ds")
    assert statuses(summary) == ["exported", "failed", "exported"]
    assert "camera cam" in summary.bags[1].reason
    assert validate_dataset(tmp_path / "ds").report.ok


def bgr_image(stamp_ns, pixels):
    return raw_image(stamp_ns, pixels, "bgr8")


@pytest.mark.parametrize("make_image", [raw_image, bgr_image, jpeg_image])
def test_red_stays_red(tmp_path, make_image):
    transport = "compressed" if make_image is jpeg_image else "raw"
    messages = [
        *arm_messages(60),
        *camera_messages("cam", range(2, 300, 33), rgb=(255, 0, 0), make_image=make_image),
    ]
    config = SessionConfig(cameras={"cam": CameraSettings(transport=transport)})
    bag = write_bag(tmp_path / "b", messages, custom(end_ms=300))
    assert statuses(run(bag, tmp_path / "ds", config=config)) == ["exported"]
    with av.open(str(tmp_path / "ds/videos/chunk-000/observation.images.cam/episode_000000.mp4")) as video:
        pixels = next(video.decode(video=0)).to_ndarray(format="rgb24")
    assert pixels.shape == (48, 64, 3)
    assert np.abs(pixels.astype(int) - picture((255, 0, 0))).max() < 12


def test_frames_keep_their_capture_times(tmp_path):
    messages = [*arm_messages(60), *camera_messages("cam", [2, 35, 68, 161, 194, 226.9, 260, 293])]
    bag = write_bag(tmp_path / "b", messages, custom(end_ms=300))
    config = SessionConfig(cameras={"cam": CameraSettings()})
    summary = run(bag, tmp_path / "ds", config=config)
    with av.open(str(tmp_path / "ds/videos/chunk-000/observation.images.cam/episode_000000.mp4")) as video:
        stream = video.streams.video[0]
        pts = sorted(int(p.pts * stream.time_base * 1000) for p in video.demux(stream) if p.pts is not None)
    # T0 is the tick at 5 ms; 226.9 - 5 is floored
    assert pts == [30, 63, 156, 189, 221, 255]
    assert summary.bags[0].counts["frames"] == {"cam": {"kept": 6, "trimmed_before": 1, "trimmed_after": 1}}


def test_a_dropped_slot_is_counted(tmp_path):
    def silent(message):
        return message[0] == "/teleop/target" and START + 98 * MS < message[1] < START + 180 * MS

    summary = run_arm(arm_bag(tmp_path / "b", drop=silent), tmp_path / "ds")
    counts = summary.bags[0].counts
    assert (counts["slots"], counts["rows"], counts["gaps"], counts["dropped"]) == (9, 7, 2, 0)
    np.testing.assert_allclose(
        column(rows(tmp_path / "ds"), "timestamp"), [0, 0.035, 0.07, 0.18, 0.2, 0.235, 0.27]
    )
    assert lines(tmp_path / "ds/meta/episode_sources.jsonl")[0]["counts"]["gaps"] == 2


def test_the_task_is_given_recorded_or_missing(tmp_path):
    bag = write_bag(tmp_path / "b", arm_messages(60))
    missing = run(bag, tmp_path / "ds", config=NO_CAMERAS)
    assert (missing.exit_code, "has no task" in missing.bags[0].reason) == (1, True)
    assert not (tmp_path / "ds").exists()
    task = '抓取 "red" cube\u2028\t✓'
    assert statuses(run(bag, tmp_path / "ds", config=NO_CAMERAS, task=task)) == ["exported"]
    content = (tmp_path / "ds/meta/tasks.jsonl").read_bytes()
    assert json.loads(content)["task"] == task
    assert content.count(b"\n") == 1


def test_one_dataset_has_one_rate(tmp_path):
    camera = {"cam": CameraSettings()}
    for index, fps in enumerate((29.97, 30.0)):
        start = START + index * 10**10
        config = SessionConfig(cameras=camera, session=SessionSettings(fps=fps))
        messages = [*arm_messages(60, start=start), *camera_messages("cam", range(0, 300, 33), start=start)]
        known = custom(start=start, end_ms=300, session_config=dump_session(config))
        write_bag(tmp_path / "rec" / f"episode_{index:06d}", messages, known)
    summary = run(tmp_path / "rec", tmp_path / "ds")
    assert statuses(summary) == ["exported", "failed"]
    assert "another fps" in summary.bags[1].reason
    assert json.loads((tmp_path / "ds/meta/info.json").read_text())["fps"] == 29.97


def test_stamps_that_are_not_set_are_said_once_and_recorded(tmp_path):
    messages = list(arm_messages(60))
    for topic, _, message in messages:
        if topic == "/arm/joint_states":
            message.header.stamp.sec = message.header.stamp.nanosec = 0
    bag = write_bag(tmp_path / "b", messages, custom(end_ms=300))
    summary = run_arm(bag, tmp_path / "ds")
    said = "/arm/joint_states: receive time: all 60 header stamps are zero"
    assert summary.bags[0].notes.count(said) == 1
    recording = lines(tmp_path / "ds/meta/episode_sources.jsonl")[0]["recording"]
    assert list(recording["clocks"]) == ["/arm/joint_states"]


def piper_ros_messages(count, topics=("/joint_states_single", "/joint_ctrl")):
    for k in range(count):
        stamp = START + k * 5 * MS
        q = [0.5, 1.0, -0.8, 0.3, -0.4, 0.6]
        yield topics[0], stamp + MS, joint_state(stamp, [*q, 0.03], velocity=[0.0] * 6)
        if len(topics) > 1:
            yield topics[1], stamp + MS, joint_state(stamp, [*q[:5], 0.7, 0.04])


def test_a_bare_piper_ros_recording(tmp_path):
    messages = list(piper_ros_messages(60))
    for camera in ("cam_front", "cam_wrist"):
        for t in range(2, 300, 33):
            stamp = START + t * MS
            messages.append(
                (f"/camera/{camera}/color/image_raw", stamp, raw_image(stamp, picture((1, 99, 7))))
            )
    bag = write_bag(tmp_path / "b", messages)
    summary = run(bag, tmp_path / "ds", task="pick")
    assert statuses(summary) == ["exported"]
    assert "piper_ros_realsense" in summary.bags[0].config
    table = rows(tmp_path / "ds")
    arm = PiperKinematics("s_v1_6_3")
    np.testing.assert_allclose(
        column(table, "observation.arm_eef")[0], arm.forward([0.5, 1.0, -0.8, 0.3, -0.4, 0.6]), atol=1e-7
    )
    np.testing.assert_allclose(
        column(table, "action.arm_eef")[0], arm.forward([0.5, 1.0, -0.8, 0.3, -0.4, 0.7]), atol=1e-7
    )
    np.testing.assert_allclose(column(table, "action.gripper")[0], [0.04])
    record = json.loads((tmp_path / "ds/meta/collection_meta.json").read_text())
    assert record["arm"]["firmware"] is None
    assert record["control"]["backend"] is None
    assert record["input_device"] is None
    assert record["recording"]["fps"] == 30.0


def test_a_recording_without_actions_is_refused_and_says_what_is_there(tmp_path):
    config = load_session("piper_ros_realsense")
    bag = write_bag(tmp_path / "b", piper_ros_messages(60, topics=("/joint_states_single",)))
    reason = run(bag, tmp_path / "ds", config=config, task="pick").bags[0].reason
    assert "no messages on /joint_ctrl" in reason
    assert "got messages on /joint_states_single" in reason


def test_paths_without_bags_are_an_error(tmp_path):
    with pytest.raises(BagError, match="no bag here"):
        run(tmp_path, tmp_path / "ds")


def test_progress_runs_from_zero_to_one_for_each_bag(tmp_path):
    sample_bag(tmp_path / "rec" / "episode_000000")
    seen = []
    run(tmp_path / "rec", tmp_path / "ds", on_progress=lambda *step: seen.append(step))
    fractions = [step[3] for step in seen]
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert fractions == sorted(fractions)
    assert len(fractions) > 50
    assert {step[:3] for step in seen} == {(0, 1, "episode_000000")}


def test_ctrl_c_in_the_middle_leaves_the_dataset_as_it_was(tmp_path):
    run(sample_bag(tmp_path / "a"), tmp_path / "ds")
    before = tree(tmp_path / "ds")

    def stop(number, bags, name, fraction):
        if fraction > 0.6:
            raise KeyboardInterrupt

    second = sample_bag(tmp_path / "b", start=START + 10**10)
    with pytest.raises(KeyboardInterrupt):
        run(second, tmp_path / "ds", on_progress=stop)
    assert tree(tmp_path / "ds") == before
    assert statuses(run(second, tmp_path / "ds")) == ["exported"]
