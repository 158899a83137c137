"""Ways to spoil one thing in a dataset on the disk."""

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FRONT, WRIST = "observation.images.cam_front", "observation.images.cam_wrist"


def rows_path(root: Path, index: int = 0) -> Path:
    return root / f"data/chunk-000/episode_{index:06d}.parquet"


def video_path(root: Path, key: str = FRONT, index: int = 0) -> Path:
    return root / f"videos/chunk-000/{key}/episode_{index:06d}.mp4"


def edit_json(path: Path, change) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value) + "\n")


def edit_info(root: Path, change) -> None:
    edit_json(root / "meta/info.json", change)


def edit_line(root: Path, name: str, number: int, change) -> None:
    """Change one line of a JSON-lines file under ``meta/``."""
    path = root / "meta" / name
    lines = path.read_text().splitlines()
    value = json.loads(lines[number])
    change(value)
    lines[number] = json.dumps(value)
    path.write_text("\n".join(lines) + "\n")


def edit_lines(root: Path, name: str, change) -> None:
    """Change the list of lines of a JSON-lines file under ``meta/``."""
    path = root / "meta" / name
    path.write_text("".join(line + "\n" for line in change(path.read_text().splitlines())))


def edit_column(root: Path, key: str, change, index: int = 0) -> None:
    """Change the cells of a column in place; the type stays."""
    path = rows_path(root, index)
    table = pq.read_table(path, partitioning=None)
    cells = np.array(table[key].to_pylist())
    change(cells)
    at, kind = table.column_names.index(key), table.schema.field(key).type
    pq.write_table(table.set_column(at, key, pa.array(cells.tolist(), kind)), path)


def edit_table(root: Path, change, index: int = 0) -> None:
    """Replace the table of an episode."""
    path = rows_path(root, index)
    table = change(pq.read_table(path, partitioning=None))
    pq.write_table(table, path)


def pictures_of(path: Path) -> tuple[list[int], list[np.ndarray]]:
    """PTS in ticks and RGB pictures of a video."""
    with av.open(str(path)) as container:
        frames = [(f.pts, f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
    return [p for p, _ in frames], [picture for _, picture in frames]


def rewrite_video(path: Path, change, ticks: int = 1000) -> None:
    """Encode a video anew with the (PTS, picture) pairs that ``change`` makes of its own."""
    frames = change(list(zip(*pictures_of(path), strict=True)))
    height, width = frames[0][1].shape[:2]
    with av.open(str(path), "w", options={"video_track_timescale": str(ticks)}) as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, ticks)
        stream.options = {"preset": "veryfast", "bf": "0", "crf": "15"}
        for pts, picture in frames:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = pts, Fraction(1, ticks)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
