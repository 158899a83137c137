"""The provenance record of a bag's session: its own, or what can be said without one."""

import hashlib
from collections.abc import Mapping
from itertools import islice

from piper_collect.bag.definitions import full_type_name
from piper_collect.bag.qos import qos_words
from piper_collect.bag.reader import BagReader
from piper_collect.bag.sidecar import EpisodeRecord, session_losses
from piper_collect.config.load import dump_session
from piper_collect.config.names import ARM_STATUS_TOPIC, resolve_topic
from piper_collect.config.schema import ControlSettings, SessionConfig, SessionSettings
from piper_collect.core.provenance import FirmwareSource, session_record, total_losses

ARM_STATUS = "piper_collect/msg/ArmStatus"
_STATUS_READ = 100
"""Ten seconds of status: an arm that has not said its firmware by then does not know it."""


def record_for(bag: BagReader, record: EpisodeRecord, config: SessionConfig) -> Mapping[str, object]:
    """The session record that came with the bag, else one of the configuration, and what the bag adds.

    The firmware that the arm itself reported in the bag comes before any other. ``qos`` has for each topic
    what its publishers offered, in words; ``losses`` sums the session's episodes as they lie beside the bag
    now. What is not known is None; settings left at their default say nothing about a recording that is
    not ours.
    """
    name = record.session or record.bag
    recorded = record.session_record
    made = _of_configuration(name, bag, record, config) if recorded is None else {"session": name, **recorded}
    known_arm = made.get("arm")
    arm = dict(known_arm) if isinstance(known_arm, Mapping) else {}
    firmware = reported_firmware(bag, config)
    if firmware:
        arm |= {"firmware": firmware, "firmware_source": "arm/status"}
    return {
        **made,
        "arm": {"firmware_source": None, **arm},
        "qos": {topic: qos_words(info.qos) for topic, info in sorted(bag.topics.items())},
        "losses": total_losses(session_losses(bag, record)),
    }


def reported_firmware(bag: BagReader, config: SessionConfig) -> str:
    """The firmware that the arm reported in the bag; empty where it did not.

    Raises:
        BagError: The arm's status cannot be decoded.
    """
    topic = resolve_topic(ARM_STATUS_TOPIC, config.session.namespace)
    info = bag.topics.get(topic)
    if info is None or full_type_name(info.type) != ARM_STATUS:
        return ""
    for message in islice(bag.messages([topic]), _STATUS_READ):
        firmware = str(getattr(bag.decode(topic, message.payload), "firmware", ""))
        if firmware:
            return firmware
    return ""


def _of_configuration(
    name: str, bag: BagReader, record: EpisodeRecord, config: SessionConfig
) -> dict[str, object]:
    arm = config.arm
    source: FirmwareSource | None = "configuration" if arm.firmware else None
    made = session_record(
        session=name,
        started_ns=bag.start_ns or 0,
        input_device=config.session.input_device,
        arm={
            "model": arm.model,
            "firmware": arm.firmware,
            "firmware_source": source,
            "dh_offset": arm.dh_offset,
        },
        control=_control(config.control),
        cameras={name: {"serial": camera.serial} for name, camera in config.cameras.items()},
        fps=config.session.fps,
        task=record.task or config.session.task,
        tool_version=record.tool_version,
        config_sha256=hashlib.sha256(dump_session(config).encode("utf-8")).hexdigest(),
    )
    if made["input_device"] == SessionSettings().input_device:
        made["input_device"] = None
    made["tool_version"] = record.tool_version or None
    return made


def _control(control: ControlSettings) -> dict[str, object]:
    known = control != ControlSettings()
    gains = control.impedance
    return {
        "backend": control.backend if known else None,
        "impedance": {
            "kp": gains.kp,
            "kd": gains.kd,
            "t_ff": gains.t_ff,
            "gravity_ff": gains.gravity_ff if known else None,
        },
    }
