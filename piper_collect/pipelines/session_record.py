"""The provenance record of a bag's session: its own, or what can be said without one."""

import hashlib
from collections.abc import Mapping

from piper_collect.bag.reader import BagReader
from piper_collect.bag.sidecar import EpisodeRecord
from piper_collect.config.load import dump_session
from piper_collect.config.schema import ControlSettings, SessionConfig, SessionSettings
from piper_collect.core.provenance import session_record


def record_for(bag: BagReader, record: EpisodeRecord, config: SessionConfig) -> Mapping[str, object]:
    """The session record that came with the bag; else one of the configuration.

    Settings left at their default say nothing about a recording that is not ours: they are None.
    """
    name = record.session or record.bag
    if record.session_record is not None:
        return {"session": name, **record.session_record}
    arm = config.arm
    made = session_record(
        session=name,
        started_ns=bag.start_ns or 0,
        input_device=config.session.input_device,
        arm={"model": arm.model, "firmware": arm.firmware, "dh_offset": arm.dh_offset},
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
            "kp": list(gains.kp) or None,
            "kd": list(gains.kd) or None,
            "t_ff": list(gains.t_ff) or None,
            "gravity_ff": gains.gravity_ff if known else None,
        },
    }
