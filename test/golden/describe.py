"""A dataset as text that says all that matters of it: what two datasets are compared by, and diffs show."""

from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from piper_collect.core.quantile_sketch import from_bytes as sketches_of
from piper_collect.core.running_stats import RunningStats
from piper_collect.core.stats_codec import from_bytes

DIGEST_BYTES = 32
PICTURE = "  rgb "


def described(root: Path) -> dict[str, str]:
    """Every file below ``root`` by its path, as text; what is no text itself has ``.txt`` after its name."""
    found = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name = path.relative_to(root).as_posix()
        if path.suffix in READERS:
            found[f"{name}.txt"] = READERS[path.suffix](path)
        else:
            found[name] = path.read_bytes().decode("utf-8")
    return found


def parquet_text(path: Path) -> str:
    """Schema and values: one column after the other, a row a line, each number to its last digit."""
    table = pq.ParquetFile(path).read()
    out = [f"{len(table)} rows"]
    for name in table.column_names:
        column = table[name].combine_chunks()
        out += ["", f"{name}: {column.type}", *map(_cell, _rows(column))]
    return "\n".join(out) + "\n"


def _rows(column: pa.Array) -> list[object]:
    """Cells as numpy has them: its float32 is written with as few digits as tell it from all others."""
    if pa.types.is_fixed_size_list(column.type):
        return list(column.flatten().to_numpy().reshape(len(column), -1))
    if column.null_count:
        return column.to_pylist()
    return list(column.to_numpy(zero_copy_only=False))


def _cell(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"[{', '.join(map(str, value))}]"
    return "null" if value is None else str(value)


def video_text(path: Path) -> str:
    """Form, time base, and for each frame its PTS in seconds and the mean of its pixels."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        out = [
            f"{context.name} {context.pix_fmt} {context.width}x{context.height}"
            f" time base {stream.time_base} rate {stream.average_rate} b-frames {int(context.has_b_frames)}"
        ]
        for frame in container.decode(stream):
            mean = frame.to_ndarray(format="rgb24").reshape(-1, 3).mean(axis=0)
            kind = " key" if frame.key_frame else ""
            out.append(f"{frame.pts * frame.time_base}{kind}{PICTURE}{' '.join(f'{m:.0f}' for m in mean)}")
    return "\n".join(out) + "\n"


def state_text(path: Path) -> str:
    """What the statistics to go on from cover; their values are those of stats.json."""
    if path.name == "quantiles_state.bin":
        sketches = sketches_of(path.read_bytes()[DIGEST_BYTES:])
        return "".join(f"{key}: {s.rows} rows\n" for key, s in sketches.items())
    stats = running_stats(path)
    return f"{stats.episodes} episodes, {stats.rows} rows\n" + "".join(f"{key}\n" for key in stats.columns)


def running_stats(path: Path) -> RunningStats:
    """What ``extras/stats_state.bin`` holds."""
    return from_bytes(path.read_bytes()[DIGEST_BYTES:])


READERS = {".parquet": parquet_text, ".mp4": video_text, ".bin": state_text}


def split_pictures(text: str) -> tuple[list[str], np.ndarray]:
    """The lines of ``video_text`` without the means, and the means [F, 3]."""
    lines = [line.partition(PICTURE) for line in text.splitlines()]
    means = [[float(v) for v in after.split()] for _, mark, after in lines if mark]
    return [before for before, _, _ in lines], np.array(means)
