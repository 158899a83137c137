"""What every drawing for the Rerun viewer has: a stream to it, the layout of its window, the robot.

Rerun is optional (``pip install piper_collect[view]``) and imported when something is to be shown.
"""

import importlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from piper_collect.core.robot import ROOT_LINK
from piper_collect.errors import ConfigError

COLOURS = {"measured": (70, 140, 255), "target": (255, 140, 40)}
AXIS_M = 0.06
TRAIL_M = 0.0015
_APPLICATION = "piper_collect"


def load_rerun() -> Any:
    """The module.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        return importlib.import_module("rerun")
    except ImportError as err:
        raise ConfigError(
            f"the viewer Rerun is not installed: {err}", hint="pip install 'piper_collect[view]'"
        ) from err


def open_stream(name: str, cameras: Iterable[str], save: Path | None) -> Any:
    """A stream to the viewer, or into a file for it.

    Args:
        name: What the viewer calls it.
        cameras: Whose pictures it will have.
        save: An ``.rrd`` file; None starts the viewer.

    Raises:
        ConfigError: Rerun is not installed, the viewer does not start, or the file cannot be written.
    """
    stream = load_rerun().RecordingStream(_APPLICATION)
    try:
        stream.save(str(save)) if save is not None else stream.spawn()
    except (OSError, RuntimeError) as err:
        where = save or "the Rerun viewer"
        raise ConfigError(f"nothing can be shown: {err}", where=where) from err
    stream.send_recording_name(name)
    stream.send_blueprint(_blueprint(cameras))
    return stream


def log_robot(stream: Any, urdf: str) -> Any:
    """Send the arm's links; the tree of them, which says how each joint moves its child's frame.

    Args:
        stream: Of ``open_stream``.
        urdf: With the root link ``base_link``.
    """
    module = importlib.import_module("rerun.urdf")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.urdf"
        path.write_text(urdf, encoding="utf-8")
        tree = module.UrdfTree.from_file_path(path, entity_path_prefix="world")
    tree.log_urdf_to_recording(stream)
    return tree


def log_world(stream: Any) -> None:
    """Send the frame that all is drawn in: the arm's base."""
    stream.log("world", load_rerun().CoordinateFrame(ROOT_LINK), static=True)


def log_flange(stream: Any, kind: str) -> None:
    """Send the axes that stand for a flange, ``measured`` or ``target``, in its moving frame."""
    rerun = load_rerun()
    axes = rerun.TransformAxes3D(AXIS_M)
    stream.log(f"world/flange/{kind}", rerun.CoordinateFrame(flange_frame(kind)), axes, static=True)


def flange_frame(kind: str) -> str:
    """Name of the frame of a flange, ``measured`` or ``target``."""
    return f"flange_{kind}"


def log_line_style(stream: Any, path: str, kind: str) -> None:
    """Say how the plot at ``path`` is drawn: in the colour of ``measured`` or ``target``."""
    line = load_rerun().SeriesLines(colors=[COLOURS[kind]], names=[path.replace("/", " ")])
    stream.log(path, line, static=True)


def _blueprint(cameras: Iterable[str]) -> Any:
    """Robot and cameras beside plots."""
    blueprint = importlib.import_module("rerun.blueprint")
    pictures = [blueprint.Spatial2DView(origin=f"cameras/{name}", name=name) for name in cameras]
    plots = [blueprint.TimeSeriesView(origin=name, name=name) for name in ("position", "joints", "gripper")]
    return blueprint.Blueprint(
        blueprint.Horizontal(
            blueprint.Vertical(
                blueprint.Spatial3DView(origin="world", name="robot"),
                blueprint.Horizontal(*pictures),
                row_shares=[3, 2],
            ),
            blueprint.Vertical(
                blueprint.TextDocumentView(origin="task", name="task"), *plots, row_shares=[1, 2, 2, 2]
            ),
            column_shares=[3, 2],
        ),
        collapse_panels=True,
    )
