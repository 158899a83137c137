"""The provenance record of a session: who and what produced its data."""

from collections.abc import Mapping


def session_record(
    *,
    session: str,
    started_ns: int,
    input_device: str,
    arm: Mapping[str, object],
    control: Mapping[str, object],
    cameras: Mapping[str, Mapping[str, object]],
    fps: float,
    task: str,
    tool_version: str,
    config_sha256: str,
) -> dict[str, object]:
    """One JSON-ready record; a value that is not known is None, never a guess.

    Args:
        session: Name of the session's folder.
        started_ns: Wall-clock ns at which the session started.
        input_device: What the operator held.
        arm: ``model``, ``firmware``, ``dh_offset``.
        control: ``backend`` and ``impedance`` with ``kp``, ``kd``, ``t_ff``, ``gravity_ff``.
        cameras: By name, at least ``serial``.
        fps: Rows a second.
        task: The session's task string.
        tool_version: Version of this package.
        config_sha256: Of the session YAML as recorded.
    """
    return {
        "session": session,
        "started_ns": started_ns,
        "task": task,
        "input_device": input_device or None,
        "arm": {name: value or None for name, value in arm.items()},
        "control": dict(control),
        "cameras": {name: {k: v or None for k, v in camera.items()} for name, camera in cameras.items()},
        "recording": {"fps": fps},
        "tool_version": tool_version,
        "config_sha256": config_sha256,
    }
