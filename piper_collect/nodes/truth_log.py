"""What a simulated device really did, row by row, for tests that check a dataset against it."""

import csv
from pathlib import Path
from typing import TextIO

from piper_collect.errors import ConfigError


class TruthLog:
    """A CSV file with one header line; does nothing when ``folder`` is empty. A kill takes no row of it.

    Args:
        folder: Where to write; made if it is not there.
        name: File name without suffix.
        columns: Names of the columns.

    Raises:
        ConfigError: when it cannot be written.
    """

    def __init__(self, folder: str, name: str, columns: tuple[str, ...]) -> None:
        self._file: TextIO | None = None
        if folder:
            path = Path(folder).expanduser() / f"{name}.csv"
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("w", buffering=1, newline="", encoding="utf-8")
            except OSError as err:
                raise ConfigError(
                    f"the truth log cannot be written: {err.strerror}", where="sim.truth_dir", got=path.parent
                ) from err
            self._writer = csv.writer(self._file)
            self._writer.writerow(columns)

    def write(self, *row: object) -> None:
        """Append one row."""
        if self._file is not None:
            self._writer.writerow(row)

    def close(self) -> None:
        """Flush and close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
