"""What was measured of an episode of any format, from its rows and the times of its frames."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from piper_collect.core.survey import CameraSurvey, ColumnSurvey, EpisodeSurvey
from piper_collect.core.types import FloatArray
from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.parquet import column_values


def episode_survey(
    reader: EpisodeReader,
    index: int,
    table: pa.Table,
    row_s: FloatArray,
    cameras: Mapping[str, CameraSurvey],
) -> EpisodeSurvey:
    """The survey of an episode.

    Args:
        reader: Its dataset.
        index: Its number.
        table: Its rows.
        row_s: float64 [T] times of the rows in seconds.
        cameras: By key, what was measured of its videos.
    """
    line = reader.lines[index]
    columns = {
        key: ColumnSurvey(key=key, names=tuple(f["names"]), values=column_values(table, key).astype(float))
        for key, f in reader.info["features"].items()
        if f["dtype"] == "float32" and f.get("names") and len(f["shape"]) == 1 and key in table.column_names
    }
    counts = line.source.get("counts")
    return EpisodeSurvey(
        index=index,
        task=line.tasks[0] if line.tasks else "",
        row_s=row_s,
        step_ms=np.diff(row_s) * 1e3,
        columns=columns,
        cameras=cameras,
        counts=counts if isinstance(counts, Mapping) else {},
        origin={k: line.source[k] for k in ("session", "bag", "t0_ns") if k in line.source},
    )
