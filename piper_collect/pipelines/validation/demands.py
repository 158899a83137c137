"""What each real consumer asks of the metadata and the columns, apart from time, by its name."""

from piper_collect.core.consumers import (
    GROOT_N15,
    GROOT_N15_DECORD,
    GROOT_N16,
    GROOT_N17,
    LEROBOT_PYAV,
    LEROBOT_TORCHCODEC,
    LEROBOT_V3,
)
from piper_collect.pipelines.validation.groot_demands import (
    early_demands,
    early_notes,
    latest_notes,
    modern_demands,
    modern_notes,
)
from piper_collect.pipelines.validation.lerobot_demands import (
    conversion_demands,
    lerobot_demands,
    lerobot_notes,
)
from piper_collect.pipelines.validation.metadata import Metadata
from piper_collect.pipelines.validation.row_demands import RowDemands
from piper_collect.pipelines.validation.totals import Missing


def metadata_demands(
    meta: Metadata, missing: Missing, rows: RowDemands, strays: int
) -> dict[str, tuple[str, ...]]:
    """By consumer, why it would refuse: in the order in which it would.

    Args:
        meta: The metadata.
        missing: Files that are not there.
        rows: What the rows are like.
        strays: Files under ``data/`` that are not parquet.
    """
    lerobot = tuple(lerobot_demands(meta, missing, rows, strays))
    modern = tuple(modern_demands(meta, missing, rows))
    early = tuple(early_demands(meta, missing, rows))
    return {
        LEROBOT_PYAV: lerobot,
        LEROBOT_TORCHCODEC: lerobot,
        LEROBOT_V3: tuple(conversion_demands(meta, missing, rows)),
        GROOT_N15: early,
        GROOT_N15_DECORD: early,
        GROOT_N16: modern,
        GROOT_N17: modern,
    }


def consumer_notes(meta: Metadata) -> dict[str, str]:
    """By consumer, what it does besides loading or refusing."""
    early, lerobot = "; ".join(early_notes(meta)), "; ".join(lerobot_notes(meta))
    return {
        LEROBOT_PYAV: lerobot,
        LEROBOT_TORCHCODEC: lerobot,
        GROOT_N15: early,
        GROOT_N15_DECORD: early,
        GROOT_N16: "; ".join(modern_notes(meta)),
        GROOT_N17: "; ".join(latest_notes(meta)),
    }
