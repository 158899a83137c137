"""LeRobot's own way to a dataset: ``add_frame`` and ``save_episode``; run by an interpreter that has LeRobot.

``python _peer_lerobot.py INPUT OUT``: INPUT holds ``episode.json`` and a file of raw RGB frames a camera.
Prints one line of JSON: seconds by the clock and of the processor, and peak memory in MB. Neither imports nor
the decoding of the recording are in it.
"""

import functools
import json
import re
import resource
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
from lerobot.datasets import lerobot_dataset, video_utils
from lerobot.datasets.lerobot_dataset import LeRobotDataset

_THREADS_A_CAMERA = 4  # what LeRobot's own recording script takes


class _Output:
    """An output container whose encoder gets settings that LeRobot does not offer."""

    def __init__(self, container: Any, options: dict[str, str]) -> None:
        self._container = container
        self._options = options

    def __enter__(self) -> "_Output":
        return self

    def __exit__(self, *error: object) -> None:
        self._container.close()

    def add_stream(self, codec: str, rate: int, options: dict[str, str]) -> Any:
        stream = self._container.add_stream(codec, rate, options={**options, **self._options})
        stream.codec_context.max_b_frames = 0
        return stream

    def mux(self, packet: Any) -> None:
        self._container.mux(packet)


def _same_settings(video: dict[str, Any]) -> None:
    """Let LeRobot encode by the settings that all ways here have."""
    options = {"preset": video["preset"]}
    video_utils.av = SimpleNamespace(
        open=lambda path, mode: _Output(av.open(path, mode), options) if mode == "w" else av.open(path, mode),
        VideoFrame=av.VideoFrame,
        logging=av.logging,
    )
    lerobot_dataset.encode_video_frames = functools.partial(
        video_utils.encode_video_frames, vcodec="h264", g=video["gop"], crf=video["crf"]
    )


def main(folder: Path, out: Path) -> None:
    """Make the dataset, and print what it took."""
    episode = json.loads((folder / "episode.json").read_text())
    _same_settings(episode["video"])
    height, width = episode["size"]
    columns = {key: np.array(cells, dtype=np.float32) for key, cells in episode["columns"].items()}
    features: dict[str, Any] = {
        key: {"dtype": "float32", "shape": (cells.shape[1],), "names": None} for key, cells in columns.items()
    }
    for camera in episode["cameras"]:
        features[f"observation.images.{camera}"] = {
            "dtype": "video",
            "shape": (height, width, 3),
            "names": ["height", "width", "channels"],
        }
    start_s, cpu_s = time.perf_counter(), _cpu_s()
    dataset = LeRobotDataset.create(
        "bench/peer",
        episode["fps"],
        features,
        root=out,
        image_writer_threads=_THREADS_A_CAMERA * len(episode["cameras"]),
    )
    files = {camera: (folder / f"{camera}.rgb").open("rb") for camera in episode["cameras"]}
    for row in range(episode["rows"]):
        frame = {key: cells[row] for key, cells in columns.items()}
        for camera, file in files.items():
            pixels = np.frombuffer(file.read(height * width * 3), np.uint8)
            frame[f"observation.images.{camera}"] = pixels.reshape(height, width, 3)
        dataset.add_frame(frame, task=episode["task"])
    dataset.save_episode()
    dataset.stop_image_writer()
    taken = time.perf_counter() - start_s, _cpu_s() - cpu_s
    (peak_kb,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps([*taken, int(peak_kb) / 1024]))


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
