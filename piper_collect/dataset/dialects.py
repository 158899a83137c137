"""The on-disk formats by the name that profiles and ``--dialect`` call them."""

from collections.abc import Mapping

from piper_collect.dataset.dialect import Dialect
from piper_collect.dataset.hdf5.store import HDF5Cases
from piper_collect.dataset.v2 import LeRobotV2
from piper_collect.dataset.v3.store import LeRobotV3

DIALECTS: Mapping[str, Dialect] = {
    "lerobot-v2.0": LeRobotV2,
    "lerobot-v2.1": LeRobotV2,
    "lerobot-v3.0": LeRobotV3,
    "hdf5-cases": HDF5Cases,
}
