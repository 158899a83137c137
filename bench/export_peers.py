"""How does an export compare with what others do on the same recording?

Ours is all of an export with the profile ``train``. LeRobot 0.3.3 is ``add_frame`` and ``save_episode`` with
the threads of its image writer; it gets rows that are aligned and frames that are decoded already, one by
one from a file, and neither is in its time. The plain converter (``bench._peer_plain.py``) reads the bag with
rosbags and holds all of it in lists. All encode H.264 by the settings of the profile (CRF, preset, GOP, no
B-frames), the two others with as many threads as x264 likes. They take turns, each in a new process; imports
are in nobody's time.
"""

import argparse
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bench._machine import in_a_process
from bench._peer_plain import convert
from bench.export_limit import Taken, by_export, timed
from bench.recordings import FPS, SIZE, record
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.profile import load_profile
from piper_collect.core.types import CameraFrame, Episode
from piper_collect.imaging.frames import to_rgb
from piper_collect.pipelines.bag_episodes import ExportOptions, bag_episodes

PROFILE = "train"
GOALS = {"LeRobot": 5.0, "plain converter": 2.0}
_PEER = Path(__file__).with_name("_peer_lerobot.py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the bench's arguments."""
    parser.add_argument(
        "--lerobot-python",
        type=Path,
        metavar="PATH",
        help="an interpreter with LeRobot 0.3.3 (default: that peer is left out)",
    )
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of recording")
    parser.add_argument("--cameras", type=int, default=3, metavar="N")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="turns; medians count")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to work (default: a temporary one)")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Let all take turns."""
    with TemporaryDirectory(prefix="bench_peers_", dir=args.folder) as text:
        folder = Path(text)
        bag = record(folder / "bag", args.seconds, cameras=args.cameras)
        ways: dict[str, Callable[[Path], Taken]] = {
            "ours": lambda out: in_a_process(by_export, bag, out, PROFILE),
            "plain converter": lambda out: in_a_process(by_plain, bag, out),
        }
        if args.lerobot_python is not None:
            in_a_process(decode_for_lerobot, bag, folder / "decoded")
            ways["LeRobot"] = lambda out: by_lerobot(args.lerobot_python, folder / "decoded", out)
        taken: dict[str, list[Taken]] = {name: [] for name in ways}
        for _ in range(args.repeats):
            for name, way in ways.items():
                out = folder / "out"
                out.mkdir()
                taken[name].append(way(out))
                shutil.rmtree(out)
    table = [_line(name, taken) for name in ways]
    goals = {}
    for row in table[1:]:
        least = GOALS[row["way"]]
        goals[f"{row['way']} / ours, by the clock: {row['wall/ours']}, at least {least:g}"] = (
            row["wall/ours"] >= least
        )
    settings = {key: str(value) for key, value in vars(args).items() if key != "lerobot_python"}
    return {"settings": settings, "table": table, "goals": goals}


def _line(name: str, taken: dict[str, list[Taken]]) -> dict[str, Any]:
    wall_s, cpu_s, memory_mb = (median(t[i] for t in taken[name]) for i in range(3))
    pairs = list(zip(taken[name], taken["ours"], strict=True))
    return {
        "way": name,
        "wall s": round(wall_s, 2),
        "cpu s": round(cpu_s, 2),
        "peak MB": round(memory_mb),
        "wall/ours": round(median(a[0] / b[0] for a, b in pairs), 2),
        "cpu/ours": round(median(a[1] / b[1] for a, b in pairs), 2),
    }


def by_plain(bag: Path, out: Path) -> Taken:
    """The plain converter."""
    spec = load_profile(PROFILE).video
    return timed(lambda: convert(bag, out / "dataset", spec, round(FPS)))


def by_lerobot(python: Path, decoded: Path, out: Path) -> Taken:
    """LeRobot, in its own interpreter."""
    # fonts, caches and hubs are no part of it
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(out / "home")}
    command = [str(python), str(_PEER), str(decoded), str(out / "dataset")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"LeRobot failed:\n{done.stderr}")
    wall_s, cpu_s, memory_mb = json.loads(done.stdout.splitlines()[-1])
    return wall_s, cpu_s, memory_mb


def decode_for_lerobot(bag: Path, folder: Path) -> None:
    """What LeRobot is fed: the rows and frames that our export makes of the recording."""
    profile = load_profile(PROFILE)
    with open_bag(bag) as reader:
        known = read_record(reader)
        config, _ = choose_config(reader, known)
        (episode,) = bag_episodes(reader, config, known, ExportOptions(profile=profile)).parts
    folder.mkdir()
    for camera in episode.cameras:
        _decode(episode, camera, folder / f"{camera}.rgb")
    columns = {f"observation.{key}": np.asarray(cells).tolist() for key, cells in episode.columns.items()}
    content = {
        "rows": episode.length,
        "fps": round(FPS),
        "task": episode.task,
        "size": list(SIZE),
        "cameras": list(episode.cameras),
        "columns": columns,
        "video": {"gop": profile.video.gop, "crf": profile.video.crf, "preset": profile.video.preset},
    }
    (folder / "episode.json").write_text(json.dumps(content))


def _decode(episode: Episode, camera: str, path: Path) -> None:
    """The frame of each row as raw RGB."""
    shown = episode.samples[camera].stamp_ns.tolist()
    frames: dict[int, CameraFrame] = {
        frame.stamp_ns: frame for frame in episode.cameras[camera].stream.frames(min(shown), max(shown))
    }
    with path.open("wb") as file:
        for stamp_ns in shown:
            file.write(to_rgb(frames[stamp_ns]).tobytes())
