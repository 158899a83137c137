"""Opens a dataset of any format."""

from collections.abc import Callable, Mapping
from pathlib import Path

from piper_collect.dataset.dialect import EpisodeReader
from piper_collect.dataset.hdf5.layout import VERSION as CASES_VERSION
from piper_collect.dataset.hdf5.reader import open_cases
from piper_collect.dataset.json_files import read_json
from piper_collect.dataset.layout import INFO, META
from piper_collect.dataset.reader import VERSIONS, open_dataset
from piper_collect.dataset.v3.layout import VERSION
from piper_collect.dataset.v3.reader import open_v3
from piper_collect.errors import DatasetError

READERS: Mapping[str, Callable[[Path], EpisodeReader]] = {
    **dict.fromkeys(VERSIONS, open_dataset),
    VERSION: open_v3,
    CASES_VERSION: open_cases,
}
"""By ``codebase_version`` of info.json."""


def open_any(root: Path) -> EpisodeReader:
    """Read what the dataset at ``root`` says of itself.

    Raises:
        DatasetError: It is none, of a format that is not in ``READERS``, or damaged.
    """
    if not (root / META / INFO).is_file():
        raise DatasetError("is no dataset", where=root, expected=f"a file {META}/{INFO}")
    version = str(read_json(root / META / INFO).get("codebase_version"))
    if version not in READERS:
        raise DatasetError(
            "a dataset of this version cannot be read",
            where=root,
            expected=" or ".join(READERS),
            got=version,
        )
    return READERS[version](root)
