"""The encoder of simulated cameras, against FFmpeg and the strip that must survive it."""

import av
import numpy as np
import pytest
from sample_bags import START
from video_cases import decoded, pictures

from piper_collect.config.names import image_topic
from piper_collect.config.schema import VIDEO_TRANSPORTS, CameraSettings, SessionConfig, SimSettings
from piper_collect.config.topic_wishes import topic_wishes
from piper_collect.config.video_transports import VIDEO_MESSAGES, install_hint
from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.frames import to_rgb
from piper_collect.imaging.h264 import StreamParser, units
from piper_collect.imaging.h264_decoder import H264Decoder
from piper_collect.imaging.h264_encoder import H264Encoder
from piper_collect.imaging.strip import read_strip, strip_error_ms, write_strip

SLICE, IDR, SPS, PPS = 1, 5, 7, 8


def stream(count: int, size=(48, 64), *, gop: int, fps: float = 30.0):
    encoder = H264Encoder(size[1], size[0], fps=fps, gop=gop)
    return [encoder.encode(image) for image in pictures(count, size)]


@pytest.mark.parametrize("gop", [1, 2, 7, 30])
def test_each_packet_is_one_picture_at_once_and_key_frames_bring_their_parameters(gop) -> None:
    packets = stream(31, gop=gop)
    parser = StreamParser()
    for number, packet in enumerate(packets):
        look = parser.add(packet.data)
        is_key = number % gop == 0
        assert (packet.number, packet.is_key, look.is_key) == (number, is_key, is_key)
        assert (look.is_decodable, look.has_b) == (True, False)
        kinds = [unit[0] & 31 for unit in units(packet.data)]
        assert packet.data.startswith(b"\x00\x00\x00\x01")
        assert [k for k in kinds if k in (SLICE, IDR, SPS, PPS)] == ([SPS, PPS, IDR] if is_key else [SLICE])
    assert parser.changes == 0
    assert not parser.sequence.is_interlaced
    assert parser.sequence.is_420
    assert not parser.sequence.full_range
    assert len(decoded(p.data for p in packets)) == 31
    # from any key frame on, with nothing before it
    for first in range(0, 31, gop):
        assert len(decoded(p.data for p in packets[first:])) == 31 - first


def test_two_encoders_of_the_same_settings_have_the_same_parameters() -> None:
    parser = StreamParser()
    for packet in [*stream(5, gop=4), *stream(5, gop=4)]:
        assert parser.add(packet.data).is_decodable
    assert parser.changes == 0


@pytest.mark.parametrize("size", [(480, 640), (200, 320), (120, 160), (60, 80), (20, 42)])
@pytest.mark.parametrize("gop", [1, 15])
def test_the_strip_survives(size, gop) -> None:
    """On a background of noise that moves, which leaves the encoder the least room."""
    encoder, decoder = H264Encoder(size[1], size[0], fps=30.0, gop=gop), H264Decoder()
    noise = np.random.default_rng(3).integers(0, 256, (*size, 3), dtype=np.uint8)
    for number in range(20):
        stamp_ns = START + number * 33_456_789
        rgb = np.roll(noise, 5 * number, axis=1)
        write_strip(rgb, stamp_ns=stamp_ns, camera=2, frame=number)
        data = encoder.encode(rgb).data
        packet = CameraFrame(stamp_ns=stamp_ns, encoding="h264", height=0, width=0, step=0, payload=data)
        (frame,) = decoder.decode(packet)
        reading = read_strip(to_rgb(frame))
        assert reading is not None
        assert (reading.camera, reading.frame) == (2, number % 16)
        assert abs(strip_error_ms(reading, stamp_ns)) <= 1.0


def test_colours_are_what_they_were() -> None:
    rgb = np.full((48, 64, 3), [190, 80, 40], np.uint8)
    data = H264Encoder(64, 48, fps=30.0, gop=1).encode(rgb).data
    (frame,) = H264Decoder().decode(
        CameraFrame(stamp_ns=0, encoding="h264", height=0, width=0, step=0, payload=data)
    )
    np.testing.assert_allclose(to_rgb(frame).mean((0, 1)), [190, 80, 40], atol=4)
    (picture,) = av.CodecContext.create("h264", "r").decode(av.Packet(data))
    assert int(picture.colorspace) == 6


def test_what_cannot_be_encoded_is_refused() -> None:
    for width, height in ((65, 48), (64, 47)):
        with pytest.raises(ImageError, match=rf"even number of columns and rows \(got {width}x{height}"):
            H264Encoder(width, height, fps=30.0, gop=1)
    with pytest.raises(ImageError, match=r"expected \(48, 64\), got \(64, 48\)"):
        H264Encoder(64, 48, fps=30.0, gop=1).encode(np.zeros((64, 48, 3), np.uint8))
    with pytest.raises(ValueError, match="camera_gop must be above 0"):
        SimSettings(camera_gop=0)


def test_every_transport_of_videos_has_its_messages_and_what_brings_them() -> None:
    assert tuple(VIDEO_MESSAGES) == VIDEO_TRANSPORTS
    said = {name: install_hint(video.type_name, "") for name, video in VIDEO_MESSAGES.items()}
    assert said["ffmpeg"].startswith("apt install ros-jazzy-ffmpeg-image-transport-msgs (")
    assert said["foxglove"].startswith("apt install ros-jazzy-foxglove-msgs (")
    assert "ros-kilted-foxglove-msgs" in install_hint(VIDEO_MESSAGES["foxglove"].type_name, "kilted")
    assert install_hint("sensor_msgs/msg/Image", "") == ""


@pytest.mark.parametrize("transport", VIDEO_TRANSPORTS)
def test_the_simulated_camera_is_known_to_publish_it(transport) -> None:
    config = SessionConfig(cameras={"cam": CameraSettings(transport=transport)})
    wishes = {wish.topic: wish for wish in topic_wishes(config)}
    wish = wishes["/" + image_topic("cam", config.cameras["cam"])]
    assert (wish.origin, wish.publisher) == ("simulated", "camera_sim_node of cam")
