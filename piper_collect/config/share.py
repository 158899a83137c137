"""Where the package's own files (config/, launch/, msg/ …) lie: a checkout, a ROS install, a pip install."""

import os
import sys
from pathlib import Path

from piper_collect.errors import ConfigError

PACKAGE = "piper_collect"


def share_dir() -> Path:
    """The folder that holds ``config/``, ``launch/``, ``msg/``, ``rviz/`` and ``urdf/`` of this package.

    A source checkout wins when the code runs from one; then the prefix that the code itself is
    installed in; then ``AMENT_PREFIX_PATH`` and the interpreter's prefix.

    Raises:
        ConfigError: when none of them holds the files.
    """
    tried = []
    for candidate in _candidates():
        tried.append(str(candidate))
        if (candidate / "config" / "profiles").is_dir():
            return candidate
    raise ConfigError(
        "the package's own files are not installed",
        where=PACKAGE,
        expected="a folder config/profiles in one of: " + ", ".join(tried),
        hint="install the package again (pip install . or colcon build)",
    )


def _candidates() -> list[Path]:
    code = Path(__file__).resolve().parents[1]
    found = [code.parent] if (code.parent / "package.xml").is_file() else []
    prefixes = [
        *code.parents,
        *map(Path, filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep))),
    ]
    prefixes.append(Path(sys.prefix))
    return found + [prefix / "share" / PACKAGE for prefix in prefixes]


def share_file(*parts: str) -> Path:
    """The path of one of the package's own files.

    Raises:
        ConfigError: when it is not there.
    """
    path = share_dir().joinpath(*parts)
    if not path.exists():
        raise ConfigError("no such file", where=path, hint="install the package again")
    return path
