"""Which validator judges a dataset, by the format that it says it has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from piper_collect.dataset.hdf5.layout import VERSION as CASES_VERSION
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import INFO, META
from piper_collect.dataset.v3.layout import VERSION
from piper_collect.errors import DatasetError
from piper_collect.pipelines.validate import EpisodeTaker, Progress, Validation, validate_dataset
from piper_collect.pipelines.validate_hdf5 import validate_hdf5_cases
from piper_collect.pipelines.validate_v3 import validate_v3


class Validator(Protocol):
    """Judges a whole dataset; see ``validate_dataset``, which judges LeRobot v2."""

    def __call__(
        self,
        root: Path,
        *,
        decode: bool = True,
        on_episode: EpisodeTaker | None = None,
        on_progress: Progress | None = None,
    ) -> Validation: ...


VALIDATORS: Mapping[str, Validator] = {VERSION: validate_v3, CASES_VERSION: validate_hdf5_cases}
"""By ``codebase_version`` of info.json; others go to that of LeRobot v2, which says what it misses."""


def validator_of(root: Path) -> Validator:
    """The validator of the dataset at ``root``."""
    try:
        version = read_json(root / META / INFO).get("codebase_version")
    except DatasetError:
        return validate_dataset
    return VALIDATORS.get(version, validate_dataset) if isinstance(version, str) else validate_dataset
