"""What a dataset of HDF5 cases holds so far, checked before it is continued."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from piper_collect.dataset.hdf5.reader import open_cases
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import INFO, LATEST_SESSION, META, MODALITY
from piper_collect.dataset.state import REPAIR, DatasetState, check_kind, check_sources, check_totals
from piper_collect.errors import DatasetError

HEADER = ("codebase_version", "robot_type", "fps")


def load_cases_state(root: Path, expected_info: Mapping[str, Any]) -> DatasetState:
    """Read the metadata of ``root`` and check that it can be continued.

    Args:
        root: A folder with ``meta/info.json``.
        expected_info: info.json as the writer would write it; totals are not compared.

    Raises:
        DatasetError: The dataset is of another kind, or its files do not agree with each other.
    """
    path = root / META / INFO
    check_kind(path, read_json(path), expected_info, HEADER)
    reader = open_cases(root)
    state = DatasetState(
        episodes=tuple(reader.episodes.values()),
        tasks=tuple(reader.tasks.values()),
        sources=tuple(reader.sources.values()),
        sessions=reader.sessions,
    )
    check_totals(path, reader.info, state)
    check_sources(root / META, state)
    for index in reader.episodes:
        file = reader.data_path(index)
        if not (file.is_file() and file.stat().st_size):
            raise DatasetError(f"the file of episode {index} is missing or empty", where=file, hint=REPAIR)
    if state.episodes:
        for name in (MODALITY, LATEST_SESSION):
            read_json(root / META / name)
    return state
