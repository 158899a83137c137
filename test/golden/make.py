"""The golden recording, and what every profile makes of it.

python test/golden/make.py --write     write what the exporter makes of the recording now
python test/golden/make.py --record    make the recording anew, too
"""

import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.describe import described
from sample_bags import (
    MS,
    START,
    arm_status,
    camera_info,
    controller,
    custom,
    joint_state,
    jpeg_image,
    pose_stamped,
    quest_input,
    teleop_target,
    write_bag,
)

from piper_collect.config.load import dump_session
from piper_collect.config.profile import load_profile, with_dialect
from piper_collect.config.schema import (
    CameraSettings,
    ControlSettings,
    ImpedanceSettings,
    SessionConfig,
    SessionSettings,
)
from piper_collect.core.provenance import session_record
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.export_outcome import ExportSummary

HERE = Path(__file__).resolve().parent
SESSION = "stack_the_cups_20260102_030405"
BAG = HERE / SESSION / "episode_000004"
EXPECTED = HERE / "expected"
TASK = 'Stack “红色” cups \t→ naïve\u2028next \\ "🤖" '

PROFILES = {
    "piper": ("piper", "lerobot-v2.0"),
    "train-v2.1": ("train", "lerobot-v2.1"),
    "train-v2.0": ("train", "lerobot-v2.0"),
    "train-v3.0": ("train", "lerobot-v3.0"),
}

FRAMES, TICKS = 20, 134
DROPPED = ("cam_front", 8)
LATE = ("cam_wrist", 12)
OVERTAKEN = ("cam_front", 15)
"""Recorded after the frame that was captured after it."""


def config() -> SessionConfig:
    cameras = {
        "cam_front": CameraSettings(width=64, height=48, serial="234222301234"),
        "cam_wrist": CameraSettings(width=64, height=48, latency_ms=4.0),
    }
    gains = ImpedanceSettings(kp=(10.0, 10.0, 8.0, 4.0, 4.0, 2.0), kd=(0.8, 0.8, 0.8, 0.4, 0.4, 0.2))
    return SessionConfig(
        session=SessionSettings(task=TASK, input_device="meta_quest_3"),
        control=ControlSettings(backend="impedance", impedance=gains),
        cameras=cameras,
    )


def record(path: Path) -> Path:
    """Write the recording: the same messages at every call."""
    session = config()
    gains = session.control.impedance
    known = session_record(
        session=SESSION,
        started_ns=START - 60 * 1000 * MS,
        input_device=session.session.input_device,
        arm={"model": "piper", "firmware": "", "firmware_source": "", "dh_offset": "s_v1_6_3"},
        control={
            "backend": "impedance",
            "impedance": {"kp": gains.kp, "kd": gains.kd, "t_ff": gains.t_ff, "gravity_ff": False},
        },
        cameras={name: {"serial": camera.serial} for name, camera in session.cameras.items()},
        fps=30.0,
        task=TASK,
        tool_version="0.1.0",
        config_sha256="0" * 64,
    )
    said = custom(
        session=SESSION,
        episode=4,
        end_ms=TICKS * 5,
        task=TASK,
        session_record=json.dumps(known),
        session_config=dump_session(session),
        losses=json.dumps({"/quest/input": 2}),
    )
    messages = [*arm(), *status(), *headset()]
    for camera in session.cameras:
        messages += frames(camera)
    return write_bag(path, messages, said)


def turn(angle: float) -> list[float]:
    """xyzw of a turn about a tilted axis."""
    half = math.sin(angle / 2)
    return [0.6 * half, 0.0, 0.8 * half, math.cos(angle / 2)]


def arm() -> Iterator[tuple[str, int, object]]:
    """200 Hz with some jitter; the sign of the measured quaternion flips in the middle."""
    for k in range(TICKS):
        t = START + k * 5 * MS + (k * 7919) % 400_000
        s = k / TICKS
        joints = [round(0.3 * math.sin(2 * s + j) - 0.1 * j, 6) for j in range(6)]
        xyz = [round(v, 6) for v in (0.25 + 0.1 * s, 0.05 * math.sin(6 * s), 0.2 + 0.02 * s * s)]
        sign = -1.0 if k < 70 else 1.0
        target = [v + 0.004 for v in xyz]
        yield "/arm/joint_states", t + MS, joint_state(t, [*joints, round(0.07 - 0.05 * s, 6)])
        yield "/arm/flange_pose", t + MS, pose_stamped(t, xyz, [sign * v for v in turn(1.2 + 0.4 * s)])
        at = t + 2 * MS + 250_000
        yield (
            "/teleop/target",
            at + MS // 2,
            teleop_target(at, target, turn(1.25 + 0.4 * s), 0.069 - 0.05 * s),
        )


def status() -> Iterator[tuple[str, int, object]]:
    for k in range(7):
        t = START + k * 100 * MS + 3 * MS
        yield "/arm/status", t, arm_status(t, "S-V1.8-5")


def headset() -> Iterator[tuple[str, int, object]]:
    for k in range(9):
        t = START + k * 80 * MS + 7 * MS
        right = controller(buttons=(round(k / 9, 6), 0.0), axes=(0.0, float("nan") if k == 3 else -0.5))
        yield "/quest/input", t + 2 * MS, quest_input(t, 900 + k, headset_ms=5000.0 + 80 * k, right=right)


def frames(camera: str) -> Iterator[tuple[str, int, object]]:
    """30 Hz, each picture of a colour of its own."""
    first_ms, number = (4.0, 0) if camera == "cam_front" else (20.0, 1)
    for k in range(FRAMES):
        stamp = START + round((first_ms + k * 100 / 3 + (0.7 if k % 3 else -0.9)) * MS)
        if (camera, k) == DROPPED:
            continue
        if (camera, k) == LATE:
            stamp += 24 * MS
        delay = 55 if (camera, k) == OVERTAKEN else 18
        at = stamp + delay * MS
        yield f"/{camera}/image_raw/compressed", at, jpeg_image(stamp, pixels(k, number))
        if k % 10 == 0:
            yield f"/{camera}/camera_info", at, camera_info(stamp, focal=480.0 + 20 * number)


def colour(frame: int, number: int) -> tuple[int, int, int]:
    """No two neighbours are alike, in either camera."""
    return (30 + 9 * frame, 220 - 8 * frame, 60 + (97 * frame + 50 * number) % 150)


def pixels(frame: int, number: int) -> np.ndarray:
    picture = np.empty((48, 64, 3), np.uint8)
    picture[:] = colour(frame, number)
    picture[:24, :32] //= 2
    return picture


def export_as(name: str, root: Path, paths: list[Path] | None = None) -> ExportSummary:
    """Export the recording by the named profile."""
    profile, dialect = PROFILES[name]
    options = ExportOptions(profile=with_dialect(load_profile(profile), dialect), save_raw_quest=True)
    return export(paths or [BAG], root, options)


def write_expected() -> None:
    """Put what the exporter makes now in the place of what is expected."""
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name in PROFILES:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "dataset"
            summary = export_as(name, root)
            if summary.exit_code:
                sys.exit("; ".join(bag.reason for bag in summary.bags))
            for file, text in described(root).items():
                path = EXPECTED / name / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode("utf-8"))


def main() -> None:
    if "--record" in sys.argv:
        shutil.rmtree(BAG.parent, ignore_errors=True)
        record(BAG)
    if not {"--write", "--record"} & set(sys.argv):
        sys.exit(__doc__)
    write_expected()


if __name__ == "__main__":
    main()
