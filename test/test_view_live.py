"""A running session in the viewer: real nodes, and what the file for the viewer then holds of them."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from ros_support import ROOT, Rig
from rrd_support import chunks, column

from piper_collect.cli.main import main
from piper_collect.config.load import dump_session
from piper_collect.config.schema import SessionConfig


def session() -> SessionConfig:
    base = SessionConfig()
    cameras = {"cam_front": replace(base.cameras["cam_front"], width=64, height=48)}
    return replace(base, cameras=cameras, arm=replace(base.arm, base_frame="table"))


def start_view(rig: Rig, save: Path, site: Path):
    file = rig.folder / "view.yaml"
    file.write_text(dump_session(session()))
    command = [sys.executable, "-m", "piper_collect.cli.main", "view", "--live"]
    command += ["--config", str(file), "--save", str(save)]
    return rig.add(rig.run.launch("view", command, PYTHONPATH=os.pathsep.join([str(ROOT), str(site)])))


def test_what_comes_is_drawn_at_the_time_that_it_was_stamped(rig: Rig, tmp_path: Path) -> None:
    rerun = pytest.importorskip("rerun", reason="rerun-sdk is not installed (pip install '.[view]')")
    from geometry_msgs.msg import PoseStamped
    from sensor_msgs.msg import CompressedImage

    from piper_collect.nodes.convert import pose7_of, stamp_ns

    poses = rig.listen(PoseStamped, "/arm/flange_pose")
    pictures = rig.listen(CompressedImage, "/cam_front/image_raw/compressed")
    process = start_view(rig, tmp_path / "x.rrd", Path(rerun.__file__).parents[1])
    subscribed = rig.node.count_subscribers
    rig.until(lambda: subscribed("/arm/flange_pose") > 1, "the viewer does not listen")
    rig.start("arm_sim_node", session())
    rig.start("camera_sim_node", session(), camera="cam_front")
    rig.until(lambda: len(pictures) > 20 and len(poses) > 100, "nothing to look at")
    assert rig.end(process, signal.SIGINT) == 0
    assert "Traceback" not in process.log()

    found = chunks(tmp_path / "x.rrd")
    sent = {stamp_ns(pose.header.stamp): pose7_of(pose.pose) for pose in poses}
    times, moved = column(found["/world/poses/measured"], "Transform3D:translation")
    known = [(place, sent[t]) for t, place in zip(times.tolist(), moved, strict=True) if t in sent]
    assert known
    for place, pose7 in known:
        assert place == pytest.approx(pose7[:3], abs=1e-6)
    shown = {stamp_ns(p.header.stamp): bytes(p.data) for p in pictures}
    times, drawn = column(found["/cameras/cam_front"], "EncodedImage:blob")
    same = [bytes(blob) == shown[t] for t, blob in zip(times.tolist(), drawn, strict=True) if t in shown]
    assert same
    assert all(same)
    assert "/world/joints/joint1" in found
    assert "/gripper/measured" in found


def test_without_the_viewer_it_says_what_to_install(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "rerun.py").write_text("raise ImportError('not here')\n")
    process = start_view(rig, tmp_path / "x.rrd", tmp_path)
    process.may_end = True
    assert process.wait() == 1
    assert "pip install 'piper_collect[view]'" in process.log()
    assert "Traceback" not in process.log()


def test_it_is_either_an_episode_or_a_session(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["view"], ["view", "somewhere", "--live"], ["view", "--live", "--episode", "3"]):
        assert main(words) == 2
        assert "--live" in capsys.readouterr().err
