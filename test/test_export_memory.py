"""What an export holds does not grow with the recording: a few frames a camera, and numbers once."""

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from export_cases import run
from sample_bags import arm_messages, camera_messages, custom, joint_state, picture, raw_image, write_bag

from piper_collect.bag.fields import FieldReader
from piper_collect.bag.reader import open_bag
from piper_collect.config.load import dump_session
from piper_collect.config.profile import VideoSpec
from piper_collect.config.schema import ArmSettings, CameraSettings, SessionConfig, SourceSettings
from piper_collect.core.types import CameraFrame, CameraStream, Episode, EpisodeCamera, RowSamples
from piper_collect.dataset.encode import encode_cameras

pytestmark = pytest.mark.usefixtures("no_sync")

HEIGHT, WIDTH = 120, 160
FRAME_BYTES = 3 * HEIGHT * WIDTH


class Counted:
    """Frames of one camera, and how many of them are there at once at most."""

    def __init__(self, frames: int) -> None:
        self.stamps = np.arange(frames, dtype=np.int64) * 33_000_000
        self.live = self.most = 0

    def frames(self, first_ns: int, last_ns: int) -> Iterator[CameraFrame]:
        for stamp_ns in self.stamps:
            pixels = np.full((16, 16, 3), stamp_ns % 251, np.uint8)
            self.live += 1
            self.most = max(self.most, self.live)
            weakref.finalize(pixels, self._gone)
            yield CameraFrame(
                stamp_ns=int(stamp_ns), encoding="rgb8", height=16, width=16, step=48, payload=pixels.data
            )
            del pixels

    def _gone(self) -> None:
        self.live -= 1

    def camera(self, name: str) -> EpisodeCamera:
        stream = CameraStream(camera=name, stamp_ns=self.stamps, receive_ns=self.stamps, frames=self.frames)
        return EpisodeCamera(stream=stream, first_ns=0, last_ns=int(self.stamps[-1]))


@pytest.mark.parametrize("timing", ["capture", "row"])
def test_a_camera_has_no_more_than_two_frames_at_once(tmp_path: Path, timing: str) -> None:
    seen = {name: Counted(100) for name in ("left", "right")}
    ticks = seen["left"].stamps
    shown = RowSamples(stamp_ns=ticks, stale=np.zeros(len(ticks), np.bool_))
    episode = Episode(
        name="e",
        t0_ns=0,
        tick_ns=ticks,
        columns={},
        samples=dict.fromkeys(seen, shown),
        cameras={name: counted.camera(name) for name, counted in seen.items()},
        task="t",
    )
    paths = {name: tmp_path / f"{name}.mp4" for name in seen}
    spec = VideoSpec(timing=timing)  # type: ignore[arg-type]
    videos = encode_cameras(episode, paths, dict.fromkeys(seen, (16, 16)), spec, fps=30.0)
    assert [v.frames for v in videos.values()] == [100, 100]
    assert all(1 <= counted.most <= 2 for counted in seen.values())


def raw_bag(path: Path, frames: int) -> Path:
    """A recording of uncompressed pictures, as they come."""

    def image(stamp_ns: int, pixels: np.ndarray) -> object:
        return raw_image(stamp_ns, picture(pixels[0, 0], height=HEIGHT, width=WIDTH))

    until_ms = frames * 33
    config = SessionConfig(cameras={"cam": CameraSettings(transport="raw")})
    messages = [
        *arm_messages(until_ms // 5),
        *camera_messages("cam", range(2, until_ms, 33), make_image=image),
    ]
    return write_bag(path, messages, custom(end_ms=until_ms, session_config=dump_session(config)))


def test_an_export_holds_a_few_frames_however_long_the_recording(tmp_path: Path) -> None:
    peaks = {}
    for frames in (20, 100):
        path = raw_bag(tmp_path / f"b{frames}", frames)
        if frames == 20:  # what is imported and cached is not what is meant
            run(path, tmp_path / "first", "train")
        tracemalloc.start()
        run(path, tmp_path / f"d{frames}", "train")
        peaks[frames] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[100] - peaks[20] < 20 * FRAME_BYTES, peaks
    assert peaks[100] < 50 * FRAME_BYTES, peaks


def test_only_what_is_asked_for_is_loaded(tmp_path: Path) -> None:
    path = raw_bag(tmp_path / "bag", 60)
    with open_bag(path, verify=False) as bag:
        tracemalloc.start()
        assert sum(1 for _ in bag.messages(["/arm/joint_states"])) == 396
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 6 * FRAME_BYTES


def test_a_reader_goes_at_once_when_it_is_let_go() -> None:
    settings = SourceSettings(topic="/t", field="position", unit="rad")
    reader = FieldReader("arm", "/t", settings, ArmSettings())
    gc.disable()
    try:
        reader.add(joint_state(1, [0.1] * 7))
        values, gone = reader.values(), weakref.ref(reader)
        del reader
        assert gone() is None
    finally:
        gc.enable()
    assert values.tolist() == [[0.1] * 7]
