"""What H.264 packets say of themselves, against what FFmpeg knows of them."""

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace
from sample_bags import COMPRESSED_VIDEO, FFMPEG_PACKET, compressed_video, ffmpeg_packet, picture, store
from video_cases import encoded, pictures

from piper_collect.bag.definitions import Definitions, embedded_codec
from piper_collect.bag.picture_look import look_at_pictures
from piper_collect.bag.source_check import SourceCheck
from piper_collect.config.names import image_topic
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.core.types import CameraFrame
from piper_collect.errors import ImageError
from piper_collect.imaging.frames import frame_size, to_rgb
from piper_collect.imaging.h264 import StreamParser, units
from piper_collect.imaging.h264_decoder import H264Decoder

TOPIC = "/cam/image_raw/ffmpeg"


@pytest.mark.parametrize(
    ("size", "pix_fmt", "full_range", "matrix"),
    [
        ((48, 64), "yuv420p", False, None),
        ((480, 640), "yuv420p", False, 1),
        ((34, 22), "yuvj420p", True, 6),
        ((50, 66), "yuv422p", False, 5),
        ((50, 66), "yuv444p", False, None),
        ((18, 130), "yuv420p10le", False, 9),
    ],
)
def test_sequence_parameters_as_ffmpeg_reads_them(size, pix_fmt, full_range, matrix) -> None:
    ((_, packet),) = encoded(pictures(1, size), pix_fmt=pix_fmt, full_range=full_range, matrix=matrix)
    parser = StreamParser()
    look = parser.add(packet)
    sequence = parser.sequence
    assert (look.is_key, look.is_decodable, look.has_b, look.is_after_loss) == (True, True, False, False)
    (frame,) = av.CodecContext.create("h264", "r").decode(av.Packet(packet)) or [None]
    assert (sequence.height, sequence.width) == (frame.height, frame.width) == size
    assert sequence.is_420 == (frame.format.name in ("yuv420p", "yuvj420p"))
    assert sequence.full_range == (frame.color_range == ColorRange.JPEG) == full_range
    assert sequence.matrix == frame.colorspace == (matrix or 2)
    assert not sequence.is_interlaced


def test_which_packets_can_be_decoded() -> None:
    packets = [p for _, p in encoded(pictures(30), keys=(0, 10, 20))]

    def looks(chosen):
        parser = StreamParser()
        return "".join(
            "K" if look.is_key else "p" if look.is_decodable else "L" if look.is_after_loss else "-"
            for look in (parser.add(packets[k]) for k in chosen)
        )

    assert looks(range(30)) == "Kppppppppp" * 3
    assert looks(range(5, 25)) == "-----KpppppppppKpppp"
    assert looks([0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]) == "KppLLLLLLKp"
    assert looks([0, 1, 2, 2, 3, 10, 12]) == "KppLLKL"  # one came twice
    assert looks([0, 1, 2, 14, 20]) == "KppLK"


WHOLE_GROUP = [*range(23), *range(33, 45)]  # 22 and 33 have following numbers


@pytest.mark.parametrize("told_by", ["count", "time", "nothing"])
def test_a_loss_from_one_number_to_the_next_shows_by_the_senders_count_or_the_time(told_by) -> None:
    packets = [p for _, p in encoded(pictures(45), keys=(0, 10, 20, 30, 40))]
    parser = StreamParser()

    def look(k):
        known = {"count": {"count": k}, "time": {"stamp_ns": 10**9 + k * 33_333_333}, "nothing": {}}[told_by]
        seen = parser.add(packets[k], **known)
        return "K" if seen.is_key else "p" if seen.is_decodable else "L" if seen.is_after_loss else "-"

    lost = "p" if told_by == "nothing" else "L"
    assert "".join(map(look, WHOLE_GROUP)) == "Kppppppppp" * 2 + "Kpp" + 7 * lost + "Kpppp"


def test_a_sender_that_began_anew_is_not_followed_without_its_key_frame() -> None:
    packets = [p for _, p in encoded(pictures(30), keys=(0, 12))]
    for known in (lambda k: {"count": k}, lambda k: {"stamp_ns": 10**9 + k * 33_333_333}):
        parser = StreamParser()
        for k in range(17):
            assert parser.add(packets[k], **known(k)).is_decodable
        # the new stream, half a second later, at the number that would have come next
        later = {name: value + 15 * 33_333_333 for name, value in known(17).items() if name == "stamp_ns"}
        look = parser.add(packets[5], **(later or {"count": 5}))
        assert (look.is_decodable, look.is_after_loss) == (False, True)
        assert parser.add(packets[0]).is_decodable


def test_a_camera_that_pauses_or_counts_otherwise_loses_nothing() -> None:
    packets = [p for _, p in encoded(pictures(60), keys=range(0, 60, 10))]
    rng = np.random.default_rng(1)
    steps = np.where(rng.random(60) < 0.1, 200_000_000, 33_333_333)  # shorter than ten pictures
    stamps = 10**9 + np.cumsum(steps)
    for count in (lambda k: None, lambda k: 0, lambda k: 3000 * k, lambda k: k + (k > 30) * 4):
        parser = StreamParser()
        looks = [
            parser.add(packets[k], stamp_ns=int(stamps[k]), count=count(k)).is_decodable for k in range(60)
        ]
        assert all(looks)
    parser = StreamParser()
    paused = [int(s) + (k > 35) * 10**10 for k, s in enumerate(stamps)]
    assert all(parser.add(packets[k], stamp_ns=paused[k], count=k).is_decodable for k in range(60))


def test_what_is_no_h264() -> None:
    for payload in (
        b"",
        b"\xff\xd8\xff\xe0 a JPEG",
        b"\x00\x00\x00\x10\x67\x64\x00\x0a",
        b"\x00\x00\x01\x67",
    ):
        with pytest.raises(ImageError):
            StreamParser().add(payload)


def test_units_of_a_byte_stream() -> None:
    assert list(units(b"\x00\x00\x00\x01\x09\x10\x00\x00\x01\x65\x88")) == [b"\x09\x10", b"\x65\x88"]
    assert list(units(b"\x01\x00\x00\x01\x09")) == []


def packet_frame(data: bytes, stamp_ns: int = 0) -> CameraFrame:
    return CameraFrame(stamp_ns=stamp_ns, encoding="h264", height=0, width=0, step=0, payload=data)


@pytest.mark.parametrize("matrix", [None, Colorspace.ITU709, Colorspace.ITU601])
def test_colours_are_those_of_the_stream(matrix) -> None:
    rgb = [200, 90, 30]
    ((_, packet),) = encoded([picture(rgb)], matrix=None if matrix is None else int(matrix))
    (frame,) = H264Decoder().decode(packet_frame(packet, 7))
    assert (frame.stamp_ns, frame_size(packet_frame(packet))) == (7, (48, 64))
    if matrix is not None:
        np.testing.assert_allclose(to_rgb(frame).mean((0, 1)), rgb, atol=4)


def test_a_damaged_packet_is_refused() -> None:
    packets = [p for _, p in encoded(pictures(4))]
    decoder = H264Decoder()
    assert len(list(decoder.decode(packet_frame(packets[0])))) == 1
    with pytest.raises(ImageError, match="cannot be decoded"):
        list(decoder.decode(packet_frame(b"\x00\x00\x01\x01")))


def test_stamps_and_types_of_video_messages() -> None:
    (_, first), (_, second) = encoded(pictures(2))
    for kind, message in (
        (FFMPEG_PACKET, ffmpeg_packet(1_500_000_000, first)),
        (COMPRESSED_VIDEO, compressed_video(1_500_000_000, first)),
    ):
        definition = store().generate_msgdef(kind, ros_version=2)[0]
        payload = bytes(store().serialize_cdr(message, kind))
        codec = embedded_codec(kind, definition, "ros2msg")
        assert codec.header_stamp_ns(payload) == 1_500_000_000
        look = look_at_pictures(TOPIC, [codec.decode(payload), ffmpeg_packet(2, second)])
        assert (look.encodings, look.sizes, look.distinct) == (("yuv420p",), ((64, 48),), 2)
    assert look_at_pictures(TOPIC, [ffmpeg_packet(2, second)]) is None


def test_the_recorder_takes_such_topics(tmp_path) -> None:
    config = SessionConfig(cameras={"cam": CameraSettings(transport="ffmpeg")})
    assert image_topic("cam", config.cameras["cam"]) == TOPIC.removeprefix("/")
    folder = tmp_path / "msg"
    folder.mkdir()
    definition = store().generate_msgdef(FFMPEG_PACKET, ros_version=2)[0].partition("=====")[0]
    (folder / "FFMPEGPacket.msg").write_text(definition)
    definitions = Definitions()
    definitions.register_msgs(folder, "ffmpeg_image_transport_msgs")
    check = SourceCheck(config, definitions)
    check.check_type(TOPIC, FFMPEG_PACKET)
    (_, _), (_, delta) = encoded(pictures(2))
    for data, text in ((delta, "h264"), (delta, "libx264;yuv420p;bgr8;bgr8"), (delta, "h264_nvenc")):
        message = ffmpeg_packet(1, data, text)
        check.check_message(TOPIC, FFMPEG_PACKET, bytes(store().serialize_cdr(message, FFMPEG_PACKET)))
    for data, text in ((delta, "hevc"), (b"nothing", "h264")):
        message = ffmpeg_packet(1, data, text)
        with pytest.raises(ImageError, match=r"camera cam|/cam/image_raw"):
            check.check_message(TOPIC, FFMPEG_PACKET, bytes(store().serialize_cdr(message, FFMPEG_PACKET)))
