"""The machine as a session would find it: packages, ROS environment, disk, clock, CAN. Nothing is changed."""

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from piper_collect.bag.session_folder import check_root, find_unfinished, free_bytes, room_refusal
from piper_collect.config.bridge import vendor_names
from piper_collect.config.drivers import driver_nodes
from piper_collect.config.graph import DDS_PROFILE_VARIABLES, collection_graph
from piper_collect.config.names import depth_topic
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.config.share import PACKAGE
from piper_collect.core.checkup import Check, CheckLevel
from piper_collect.core.machine_checks import (
    DISK,
    CanFacts,
    ClockFacts,
    DiskFacts,
    MemoryFacts,
    PackageFacts,
    can_checks,
    clock_checks,
    disk_checks,
    memory_checks,
    package_checks,
)
from piper_collect.core.ros_checks import RosFacts, ros_checks
from piper_collect.devices.can_port import SYS_CLASS_NET, check_can_port
from piper_collect.errors import ArmError, ConfigError, SessionError
from piper_collect.pipelines.record import check_task

SHARED_MEMORY = Path("/dev/shm")
SEGMENT_BYTES = 68_000_000
"""What one process takes with the package's Fast DDS profile, segment and ports."""

JPEG_BYTES_PX = 0.3
"""A camera's scene as a JPEG of quality 95, image_transport's default, about; a quiet scene takes half."""

NUMBERS_BYTES_S = 500_000.0
"""Joints, poses, targets and headset at 200 Hz, about."""

_EVERYWHERE = {
    "numpy": "numpy",
    "scipy": "scipy",
    "yaml": "PyYAML",
    "rich": "rich",
    "rosbags": "rosbags",
    "mcap": "mcap",
    "av": "av",
    "simplejpeg": "simplejpeg",
    "zstandard": "zstandard",
}
_PILLOW = {"PIL": "pillow"}
_PAGE = {"aiohttp": "aiohttp", "cryptography": "cryptography", "segno": "segno"}
_DATASET = {"pyarrow": "pyarrow"}
_DESK = {**_PAGE, **_PILLOW, **_DATASET}
_CAN = {"piper_sdk": "piper_sdk", "can": "python-can"}


def machine_checks(
    config: SessionConfig,
    *,
    environment: Mapping[str, str] | None = None,
    sys_class_net: Path = SYS_CLASS_NET,
    shared_memory: Path = SHARED_MEMORY,
) -> Iterator[Check]:
    """Look at the machine.

    Args:
        config: The session.
        environment: Variables; those of the process by default.
        sys_class_net: Where the kernel lists its network interfaces.
        shared_memory: Where shared memory lies.
    """
    variables = os.environ if environment is None else environment
    yield from package_checks(tuple(_packages(config)))
    yield from clock_checks(system_clock())
    own_profile = not any(name in variables for name in DDS_PROFILE_VARIABLES)
    if own_profile:
        yield from memory_checks(_memory(config, shared_memory))
    yield from ros_checks(_ros_facts(variables))
    yield from disk_checks(disk_facts(config))
    yield from storage_checks(config)
    if config.devices.arm == "can" and config.can.interface == "socketcan":
        yield from can_checks(can_facts(config, sys_class_net))


def session_checks(config: SessionConfig, source: str) -> Iterator[Check]:
    """Whether the configuration itself can work, and what must run beside the session.

    Args:
        config: The session, which was read without an error.
        source: Where it comes from.
    """

    def check(level: CheckLevel, what: str, found: str, hint: str = "") -> Check:
        return Check(level=level, group="session", where=source, what=what, found=found, hint=hint)

    devices = config.devices
    told = f"arm {devices.arm}, cameras {devices.cameras}, operator {devices.operator}"
    yield check("ok", "configuration", told)
    try:
        check_task(config)
    except ConfigError as err:
        yield check("FAIL", "task", err.what, err.hint or "")
    else:
        task = config.session.task
        yield check("ok", "task", task or "none yet: give it with --task, or in the start call")
    for driver in driver_nodes(config):
        yield check("ok", "beside it", f"{driver.what} must run")


def _packages(config: SessionConfig) -> Iterator[PackageFacts]:
    wanted = [(_EVERYWHERE, "the session", "")]
    if config.devices.operator == "quest":
        wanted.append((_PAGE, "devices.operator: quest", ""))
    if config.devices.cameras == "sim":
        wanted.append((_PILLOW, "devices.cameras: sim", ""))
    if config.devices.arm == "can":
        more = {"msgpack": "msgpack"} if config.can.interface == "udp_multicast" else {}
        wanted.append((_CAN | more, "devices.arm: can", ""))
    if config.session.dataset:
        wanted.append((_DATASET, "session.dataset", ""))
    if config.desk.serve:
        wanted.append((_DESK, "desk.serve", "there is no page at the desk"))
    pins, told = _pins(), set[str]()
    for modules, needed_by, lost in wanted:
        for module, package in modules.items():
            if module not in told:
                told.add(module)
                yield _package(module, package, needed_by, pins, optional=lost)
    yield from _ros_packages(config, pins)


def _ros_packages(config: SessionConfig, pins: Mapping[str, str]) -> Iterator[PackageFacts]:
    hint = "on Linux x86_64 `pip install .` brings it; on a ROS machine source its setup.bash"
    wheel = _version("ros-rclpy") is not None
    package = "ros-rclpy" if wheel else "rclpy"
    yield _package("rclpy", package, "every node", pins if wheel else {}, install=hint)
    again = "pip install . (or colcon build) again: its messages are made then"
    yield _package(f"{PACKAGE}.msg", PACKAGE, "every node", {}, install=again)
    if config.devices.arm == "bridge":
        name = vendor_names(config.bridge).status_type.partition("/")[0]
        lost = "the arm's status is not known, and its motors cannot be switched from here"
        install = f"source the workspace that holds {name}"
        yield _package(name, name, "devices.arm: bridge", {}, install=install, optional=lost)


def _package(
    module: str,
    package: str,
    needed_by: str,
    pins: Mapping[str, str],
    *,
    install: str = "",
    optional: str = "",
) -> PackageFacts:
    try:
        found = find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    return PackageFacts(
        module=module,
        package=package,
        needed_by=needed_by,
        found=found,
        version=_version(package),
        pinned=pins.get(_canonical(package)),
        install=install,
        optional=optional,
    )


def _pins() -> dict[str, str]:
    """Version that each package was tried with; empty where this one was not installed by pip."""
    try:
        requirements = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return {}
    matches = (re.match(r"([A-Za-z0-9._-]+)==([^;\s]+)", requirement) for requirement in requirements)
    return {_canonical(match[1]): match[2] for match in matches if match}


def _canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ros_facts(variables: Mapping[str, str]) -> RosFacts:
    profiles = [variables[name] for name in DDS_PROFILE_VARIABLES if variables.get(name)]
    return RosFacts(
        domain_id=variables.get("ROS_DOMAIN_ID"),
        discovery_range=variables.get("ROS_AUTOMATIC_DISCOVERY_RANGE"),
        localhost_only=variables.get("ROS_LOCALHOST_ONLY"),
        rmw=variables.get("RMW_IMPLEMENTATION"),
        profile=profiles[0] if profiles else None,
        profile_there=all(Path(path).is_file() for path in profiles),
        rmw_installed=_middlewares(variables),
    )


def _middlewares(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Middlewares that are registered where ROS is installed; empty where none is."""
    prefixes = [*variables.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    index = "share/ament_index/resource_index/rmw_typesupport"
    found = {path.name for prefix in prefixes if prefix for path in Path(prefix, index).glob("rmw_*_cpp")}
    return tuple(sorted(found))


def _memory(config: SessionConfig, folder: Path) -> MemoryFacts:
    processes = len(collection_graph(config).nodes) + len(driver_nodes(config))
    free = free_bytes(folder) if folder.is_dir() else None
    return MemoryFacts(path=str(folder), free_bytes=free, segment_bytes=SEGMENT_BYTES, processes=processes)


def disk_facts(config: SessionConfig) -> DiskFacts:
    """The recording root, as the recorder would find it."""
    root = Path(config.session.root).expanduser()
    rate = NUMBERS_BYTES_S + sum(_camera_bytes_s(camera) for camera in config.cameras.values())
    try:
        check_root(root)
        return DiskFacts(
            root=str(root),
            free_bytes=free_bytes(root),
            refusal=room_refusal(root, config.recorder.min_free_gb),
            floor_bytes=config.recorder.min_free_gb * 1e9,
            bytes_per_s=rate,
            unfinished=tuple(map(str, find_unfinished(root))),
        )
    except SessionError as err:
        return DiskFacts(root=str(root), problem=err.what, hint=err.hint or "")


def storage_checks(config: SessionConfig) -> Iterator[Check]:
    """What would write the bags, or why nothing can as it is configured."""
    try:
        from piper_collect.bag.backends import choose_storage
    except ModuleNotFoundError:  # named among the packages
        return

    def check(level: CheckLevel, found: str, expected: str = "", hint: str = "") -> Check:
        where = "recorder.storage"
        return Check(level=level, group=DISK, where=where, what="", found=found, expected=expected, hint=hint)

    try:
        storage = choose_storage(config.recorder.storage, config.recorder.storage_backend)
    except ConfigError as err:
        expected = "" if err.expected is None else str(err.expected)
        yield check("FAIL", f"{err.what} (got {err.got})", expected, err.hint or "")
        return
    if storage.because:
        yield check("warn", f"{storage}; rosbag2_py is not used: {storage.because}")
    else:
        yield check("ok", str(storage))


def _camera_bytes_s(camera: CameraSettings) -> float:
    pixel = 3.0 if camera.transport == "raw" else JPEG_BYTES_PX
    depth = 2.0 if depth_topic(camera) else 0.0
    return camera.width * camera.height * camera.fps * (pixel + depth)


def can_facts(config: SessionConfig, sys_class_net: Path = SYS_CLASS_NET) -> CanFacts:
    """The arm's CAN interface, as its node would find it."""
    channel = config.can.channel
    try:
        bitrate = check_can_port(channel, config.can.bitrate, sys_class_net)
    except ArmError as err:
        got = f", got {err.got}" if err.got is not None else ""
        expected = str(err.expected) if err.expected is not None else ""
        return CanFacts(channel=channel, problem=f"{err.what}{got}", expected=expected, hint=err.hint or "")
    return CanFacts(channel=channel, bitrate=bitrate)


class _Timex(ctypes.Structure):
    """``struct timex`` of Linux (adjtimex(2))."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


_TIME_ERROR = 5
_STA_UNSYNC = 0x0040


def system_clock() -> ClockFacts:
    """What the kernel says of its clock; nothing is set, since no mode is asked for."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (AttributeError, OSError):
        return ClockFacts()
    if state < 0:
        return ClockFacts()
    synchronised = state != _TIME_ERROR and not timex.status & _STA_UNSYNC
    return ClockFacts(synchronised=synchronised, error_ms=timex.maxerror / 1e3 if synchronised else None)
