"""The packets that an episode needs of a video from before its start."""

from sample_bags import COMPRESSED_VIDEO, FFMPEG_PACKET, compressed_video, ffmpeg_packet, store
from video_cases import encoded, pictures

from piper_collect.bag.definitions import embedded_codec
from piper_collect.bag.lead_in import LeadIn

TOPIC = "/cam/image_raw/ffmpeg"
STEP_NS = 33_333_333
CODECS = {
    kind: embedded_codec(kind, store().generate_msgdef(kind, ros_version=2)[0], "ros2msg")
    for kind in (FFMPEG_PACKET, COMPRESSED_VIDEO)
}


def feed(lead_in, packets, numbers, kind=FFMPEG_PACKET):
    """Feed packets of these numbers, each received at its number of steps."""
    make = ffmpeg_packet if kind == FFMPEG_PACKET else compressed_video
    for k in numbers:
        payload = bytes(store().serialize_cdr(make(10**9 + k * STEP_NS, packets[k]), kind))
        lead_in.take(CODECS[kind], payload, k * STEP_NS, None)


def kept(lead_in, since=0) -> list[int]:
    return [message.receive_ns // STEP_NS for message in lead_in.messages(since * STEP_NS)]


def test_it_goes_back_to_the_newest_key_frame() -> None:
    packets = [p for _, p in encoded(pictures(25), keys=(0, 10, 20))]
    for kind in CODECS:
        lead_in = LeadIn(TOPIC)
        assert kept(lead_in) == []
        for last, wanted in ((3, [0, 1, 2, 3]), (10, [10]), (15, [*range(10, 16)]), (24, [*range(20, 25)])):
            lead_in = LeadIn(TOPIC)
            feed(lead_in, packets, range(last + 1), kind)
            assert kept(lead_in) == wanted


def test_nothing_is_kept_that_cannot_be_decoded_or_is_old() -> None:
    packets = [p for _, p in encoded(pictures(25), keys=(0, 10, 20))]
    lead_in = LeadIn(TOPIC)
    feed(lead_in, packets, range(4, 9))  # no key frame came yet
    assert kept(lead_in) == []
    feed(lead_in, packets, (10, 11, 13, 14))  # 12 is lost
    assert kept(lead_in) == []
    feed(lead_in, packets, (20, 21))
    assert kept(lead_in) == [20, 21]
    assert kept(lead_in, since=21) == [20, 21]
    assert kept(lead_in, since=22) == []
    lead_in.take(CODECS[FFMPEG_PACKET], b"\x00\x01\x00\x00no message", 22 * STEP_NS, None)
    assert kept(lead_in) == []


def test_a_stream_without_further_key_frames_is_given_up() -> None:
    packets = [p for _, p in encoded(pictures(12), keys=(0,))]
    by_number = LeadIn(TOPIC, most_packets=8)
    feed(by_number, packets, range(8))
    assert kept(by_number) == [*range(8)]
    feed(by_number, packets, range(8, 12))
    assert kept(by_number) == []
    by_size = LeadIn(TOPIC, most_bytes=200 + sum(len(p) for p in packets[:5]))
    feed(by_size, packets, range(12))
    assert kept(by_size) == []
