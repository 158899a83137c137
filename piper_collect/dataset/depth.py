"""Depth images as a column of an episode's rows: PNG of 16 bits, on the disk until they are in their file."""

import os
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from piper_collect.core.image_stats import ImageHistogram, thin
from piper_collect.core.types import CameraFrame
from piper_collect.errors import DatasetError
from piper_collect.files import sync
from piper_collect.imaging.depth import png_bytes, to_millimetres

DEPTH_CELL = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
"""A cell: the PNG, and a name that is no file's, as LeRobot has pictures in rows."""
_BATCH_BYTES = 4 << 20
_COLUMN = "depth"


def depth_key(name: str) -> str:
    """Feature key of depth images, which are called ``name`` (see ``depth_name``)."""
    return f"observation.{name}"


class DepthWriter:
    """Writes the depth images of an episode into a file of their own, row by row.

    Args:
        path: The file; ``depth_column`` reads it.
        size: (height, width) of the images.
        looked_at: Rows whose images are counted.

    Attributes:
        rows: Rows written.
        repeated: Rows that show the same image as the one before.
        pictures: Histogram of the images counted, in millimetres.
    """

    def __init__(self, path: Path, size: tuple[int, int], looked_at: Collection[int] = ()) -> None:
        self.rows = self.repeated = 0
        self.pictures = ImageHistogram.empty_depth()
        self._path, self._size, self._looked_at = path, size, looked_at
        self._cells: list[dict[str, Any]] = []
        self._bytes = 0

    def __enter__(self) -> "DepthWriter":
        self._file = pa.OSFile(os.fsencode(self._path), "wb")
        self._schema = pa.schema([pa.field(_COLUMN, DEPTH_CELL)])
        self._sink = pa.ipc.new_file(self._file, self._schema)
        return self

    def write(self, frame: CameraFrame, count: int) -> None:
        """Add the image that ``count`` rows show.

        Raises:
            ImageError: It is no depth image, or cannot be told in whole millimetres.
            DatasetError: It has another size.
        """
        depth = to_millimetres(frame)
        if depth.shape != self._size:
            raise DatasetError(
                "the depth image has another size",
                where=f"image stamped {frame.stamp_ns} ns",
                expected=f"{self._size[0]}x{self._size[1]} (height x width)",
                got=f"{depth.shape[0]}x{depth.shape[1]}",
            )
        encoded = png_bytes(depth)
        for row in range(self.rows, self.rows + count):
            self._cells.append({"bytes": encoded, "path": f"frame-{row:06d}.png"})
            self._bytes += len(encoded)
            if row in self._looked_at:
                self.pictures = self.pictures.added(thin(depth[:, :, None]))
        self.rows += count
        self.repeated += count - 1
        if self._bytes >= _BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        cells = pa.array(self._cells, DEPTH_CELL)
        self._sink.write_batch(pa.record_batch([cells], schema=self._schema))
        self._cells, self._bytes = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._cells:
            self._flush()
        self._sink.close()
        self._file.close()
        if kind is None:
            sync(self._path)


def depth_column(path: Path) -> pa.ChunkedArray:
    """The cells that a ``DepthWriter`` wrote; they stay on the disk, and are read where they are needed.

    Raises:
        DatasetError: The file cannot be read.
    """
    try:
        with pa.memory_map(os.fsencode(path)) as file:
            return pa.ipc.open_file(file).read_all()[_COLUMN]
    except (OSError, pa.ArrowException) as err:
        raise DatasetError(f"the depth images cannot be read again: {err}", where=path) from err
