"""An episode in the Rerun viewer: its cameras, the robot, trails and plots."""

from pathlib import Path
from typing import Any

import numpy as np

from piper_collect.core.robot import ROOT_LINK, model_joints
from piper_collect.core.types import FloatArray, StampArray
from piper_collect.report.rerun_stream import (
    COLOURS,
    TRAIL_M,
    flange_frame,
    load_rerun,
    log_flange,
    log_line_style,
    log_robot,
    log_world,
    open_stream,
)
from piper_collect.report.scene import Curve, EpisodeScene


def show(scene: EpisodeScene, urdf: str, save: Path | None) -> None:
    """Send an episode to the viewer, or into a file for it.

    Args:
        scene: What to show.
        urdf: The arm, with the root link ``base_link``.
        save: An ``.rrd`` file; None starts the viewer.

    Raises:
        ConfigError: Rerun is not installed, or the file cannot be written.
    """
    recording = open_stream(scene.name, (*scene.videos, *scene.pictures), save)
    drawing = _Drawing(recording, scene)
    drawing.text()
    drawing.robot(urdf)
    drawing.motion()
    drawing.cameras()
    recording.flush()
    recording.disconnect()


class _Drawing:
    """Logs the parts of one scene."""

    def __init__(self, recording: Any, scene: EpisodeScene) -> None:
        self._rerun, self._recording, self._scene = load_rerun(), recording, scene

    def text(self) -> None:
        """The task, and what cannot be shown."""
        lines = [f"# {self._scene.task}", self._scene.name, *self._scene.notes]
        document = self._rerun.TextDocument("\n\n".join(lines), media_type="text/markdown")
        self._recording.log("task", document, static=True)

    def robot(self, urdf: str) -> None:
        """The arm's links by the joints: each joint moves its child's frame in its parent's."""
        log_world(self._recording)
        joints = self._scene.joints
        if joints is None:
            return
        tree = log_robot(self._recording, urdf)
        for name, values in _model_values(joints, self._scene.widths.get("measured")).items():
            columns = tree.get_joint_by_name(name).compute_transform_columns(values.tolist(), clamp=False)
            self._columns(f"world/joints/{name}", joints.time_ns, columns)

    def motion(self) -> None:
        """Whole trails, the moving frames of the flange, and plots of all numbers."""
        rerun, scene = self._rerun, self._scene
        for kind, pose in scene.poses.items():
            trail = rerun.LineStrips3D([pose.values[:, :3]], colors=[COLOURS[kind]], radii=[TRAIL_M])
            self._recording.log(f"world/trail/{kind}", trail, static=True)
            self._recording.log(f"world/trail/{kind}", rerun.CoordinateFrame(ROOT_LINK), static=True)
            self._frame(kind, pose)
            for k, axis in enumerate("xyz"):
                self._plot(f"position/{axis}/{kind}", pose.time_ns, pose.values[:, k], kind)
        for kind, width in scene.widths.items():
            self._plot(f"gripper/{kind}", width.time_ns, width.values[:, 0], kind)
        if scene.joints is not None:
            for k, name in enumerate(scene.joints.names):
                self._plot(f"joints/{name}", scene.joints.time_ns, scene.joints.values[:, k], "")

    def cameras(self) -> None:
        """Videos as they are in the dataset, pictures as they are in the bag."""
        rerun = self._rerun
        for name, video in self._scene.videos.items():
            asset = rerun.AssetVideo(contents=video.read(), media_type="video/mp4")
            self._recording.log(f"cameras/{name}", asset, static=True)
            columns = rerun.VideoFrameReference.columns(
                timestamp=[rerun.components.VideoTimestamp(nanoseconds=int(ns)) for ns in video.pts_ns]
            )
            self._columns(f"cameras/{name}", video.time_ns, columns)
        for name, pictures in self._scene.pictures.items():
            for picture in pictures():
                self._recording.set_time(self._scene.clock, **self._moment(picture.time_ns))
                image = rerun.EncodedImage(contents=picture.encoded, media_type=picture.media_type)
                self._recording.log(f"cameras/{name}", image)
        self._recording.reset_time()

    def _frame(self, kind: str, pose: Curve) -> None:
        rerun, count = self._rerun, len(pose.time_ns)
        log_flange(self._recording, kind)
        columns = rerun.Transform3D.columns(
            translation=pose.values[:, :3],
            quaternion=np.roll(pose.values[:, 3:], -1, axis=1),  # Rerun's are xyzw
            parent_frame=[ROOT_LINK] * count,
            child_frame=[flange_frame(kind)] * count,
        )
        self._columns(f"world/poses/{kind}", pose.time_ns, columns)

    def _plot(self, path: str, time_ns: StampArray, values: FloatArray, kind: str) -> None:
        if kind:
            log_line_style(self._recording, path, kind)
        self._columns(path, time_ns, self._rerun.Scalars.columns(scalars=values))

    def _columns(self, path: str, time_ns: StampArray, columns: Any) -> None:
        index = self._rerun.TimeColumn(self._scene.clock, **self._moments(time_ns))
        self._recording.send_columns(path, indexes=[index], columns=columns)

    def _moments(self, time_ns: StampArray) -> dict[str, Any]:
        if self._scene.clock == "capture_time":
            return {"timestamp": time_ns.astype("datetime64[ns]")}
        return {"duration": time_ns.astype("timedelta64[ns]")}

    def _moment(self, time_ns: int) -> dict[str, Any]:
        return {key: value[0] for key, value in self._moments(np.array([time_ns], np.int64)).items()}


def _model_values(joints: Curve, width: Curve | None) -> dict[str, FloatArray]:
    """Every moving joint of the URDF at the times of the joints; the newest width that is not after them."""
    widths = np.zeros(len(joints.time_ns))
    if width is not None and len(width.time_ns):
        newest = np.searchsorted(width.time_ns, joints.time_ns, side="right") - 1
        widths = width.values[np.maximum(newest, 0), 0]
    rows = [model_joints(q, w) for q, w in zip(joints.values.tolist(), widths.tolist(), strict=True)]
    return {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else {})}
