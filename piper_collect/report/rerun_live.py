"""A session in the Rerun viewer while it runs: what comes is drawn at the time that it was stamped."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from piper_collect.core.kinematics import JOINT_NAMES
from piper_collect.core.robot import ROOT_LINK, model_joints
from piper_collect.core.trail import Point
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
from piper_collect.report.scene import ShownPicture

_CLOCK = "capture_time"
_KINDS = tuple(COLOURS)


class LiveDrawing:
    """Sends a session to the viewer, or into a file for it.

    Args:
        name: What the viewer calls it.
        urdf: The arm, with the root link ``base_link``.
        cameras: Names of those whose pictures will come.
        save: An ``.rrd`` file; None starts the viewer.

    Raises:
        ConfigError: Rerun is not installed, the viewer does not start, or the file cannot be written.
    """

    def __init__(self, name: str, urdf: str, cameras: Sequence[str], save: Path | None) -> None:
        self._rerun = load_rerun()
        self._stream = open_stream(name, cameras, save)
        log_world(self._stream)
        self._tree = log_robot(self._stream, urdf)
        for kind in _KINDS:
            log_flange(self._stream, kind)
            self._stream.log(f"world/trail/{kind}", self._rerun.CoordinateFrame(ROOT_LINK), static=True)
            for path in (*(f"position/{axis}" for axis in "xyz"), "gripper"):
                log_line_style(self._stream, f"{path}/{kind}", kind)

    def joints(self, time_ns: int, joints: Sequence[float], width_m: float) -> None:
        """Measured joints 1 to 6 in rad, and the gripper's opening."""
        self._at(time_ns)
        for name, value in model_joints(joints, width_m).items():
            moved = self._tree.get_joint_by_name(name).compute_transform(value, clamp=False)
            self._stream.log(f"world/joints/{name}", moved)
        for name, value in zip(JOINT_NAMES, joints, strict=True):
            self._stream.log(f"joints/{name}", self._rerun.Scalars(value))
        self.width(time_ns, "measured", width_m)

    def pose(self, time_ns: int, kind: str, pose7: Sequence[float]) -> None:
        """A flange pose, ``measured`` or ``target``: x, y, z in metres, then qw, qx, qy, qz."""
        self._at(time_ns)
        transform = self._rerun.Transform3D(
            translation=pose7[:3],
            quaternion=np.roll(pose7[3:], -1),  # Rerun's are xyzw
            parent_frame=ROOT_LINK,
            child_frame=flange_frame(kind),
        )
        self._stream.log(f"world/poses/{kind}", transform)
        for axis, value in zip("xyz", pose7[:3], strict=True):
            self._stream.log(f"position/{axis}/{kind}", self._rerun.Scalars(value))

    def width(self, time_ns: int, kind: str, width_m: float) -> None:
        """A gripper's opening in metres, ``measured`` or ``target``."""
        self._at(time_ns)
        self._stream.log(f"gripper/{kind}", self._rerun.Scalars(width_m))

    def trail(self, time_ns: int, kind: str, points: Sequence[Point]) -> None:
        """Where a flange went lately."""
        self._at(time_ns)
        line = self._rerun.LineStrips3D([points], colors=[COLOURS[kind]], radii=[TRAIL_M])
        self._stream.log(f"world/trail/{kind}", line)

    def picture(self, camera: str, picture: ShownPicture) -> None:
        """A camera's picture."""
        self._at(picture.time_ns)
        image = self._rerun.EncodedImage(contents=picture.encoded, media_type=picture.media_type)
        self._stream.log(f"cameras/{camera}", image)

    def text(self, time_ns: int, text: str) -> None:
        """How the session stands, in words."""
        self._at(time_ns)
        self._stream.log("task", self._rerun.TextDocument(text, media_type="text/markdown"))

    def close(self) -> None:
        """Send what is left."""
        self._stream.flush()
        self._stream.disconnect()

    def _at(self, time_ns: int) -> None:
        moment: Any = np.datetime64(time_ns, "ns")
        self._stream.set_time(_CLOCK, timestamp=moment)
