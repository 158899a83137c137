"""Cameras that send H.264, as processes: published, recorded over DDS, and what an export makes of it."""

import os
import signal
import sys
from array import array
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from export_cases import lines, sources
from recorder_studio import Studio
from ros_support import ROOT, one_session, record_command
from sample_bags import VIDEO_DEFINITIONS, store
from video_cases import decoded
from video_cell import (
    CAMERA,
    SIZE,
    VideoCell,
    config_of,
    decodable,
    recorded,
    strips_agree,
    topic_of,
    video_class,
)

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import choose_config, read_record
from piper_collect.config.load import dump_session
from piper_collect.config.profile import load_profile
from piper_collect.config.video_transports import VIDEO_MESSAGES
from piper_collect.imaging.h264 import units
from piper_collect.imaging.h264_encoder import H264Encoder
from piper_collect.imaging.strip import write_strip
from piper_collect.nodes.convert import stamp_msg
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.strip_check import check_strips
from piper_collect.pipelines.validate import validate_dataset
from piper_collect.pipelines.validate_bag import validate_bag

TRANSPORTS = tuple(VIDEO_MESSAGES)
INSTALLED = [name for name, video in VIDEO_MESSAGES.items() if find_spec(video.package) is not None]
SLICE, IDR, SPS, PPS = 1, 5, 7, 8
ONE_KEY = 100_000


@pytest.fixture
def video_site(request, monkeypatch):
    """Gives what to put on the Python path for the messages of a transport, which are then importable here.

    Where a package is installed it is used, else made by ROS's own generators.
    """

    def site(transport: str) -> Path | None:
        if transport in INSTALLED:
            return None
        made = request.getfixturevalue("vendor_site")(VIDEO_MESSAGES[transport].package)
        monkeypatch.syspath_prepend(str(made))
        return made

    return site


def stamp_of(message) -> int:
    stamp = message.header.stamp if hasattr(message, "header") else message.timestamp
    return stamp.sec * 10**9 + stamp.nanosec


def kinds(packet) -> list[int]:
    return [unit[0] & 31 for unit in units(bytes(packet.data))]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_camera_publishes_one_picture_a_message_as_its_transport_does(rig, video_site, transport):
    site = video_site(transport)
    gop = 5
    config = config_of(rig.folder, transport, camera_gop=gop)
    heard = rig.listen(video_class(transport), topic_of(transport))
    rig.start("camera_sim_node", config, site=site, camera=CAMERA)
    rig.until(lambda: len(heard) > 3 * gop, "the camera is silent")
    packets = heard[: 3 * gop]
    for number, packet in enumerate(packets):
        wanted = [SPS, PPS, IDR] if number % gop == 0 else [SLICE]
        assert [k for k in kinds(packet) if k in (SLICE, IDR, SPS, PPS)] == wanted
        if transport == "ffmpeg":
            assert packet.header.frame_id == f"{CAMERA}_color_optical_frame"
            assert (packet.width, packet.height, packet.encoding) == (*SIZE, "h264;yuv420p;rgb8;rgb8")
            assert (packet.pts, packet.flags) == (number, int(number % gop == 0))
            assert packet.is_bigendian == (sys.byteorder == "big")
        else:
            assert (packet.frame_id, packet.format) == (f"{CAMERA}_color_optical_frame", "h264")
    pictures = decoded(bytes(packet.data) for packet in packets)
    assert len(pictures) == len(packets)
    assert all(later > sooner for sooner, later in pairwise(map(stamp_of, packets)))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_without_the_messages_the_node_ends_with_one_line(ros_run, tmp_path, transport):
    video = VIDEO_MESSAGES[transport]
    file = tmp_path / "session.yaml"
    file.write_text(dump_session(config_of(tmp_path, transport)), encoding="utf-8")
    arguments = ["--ros-args", "--params-file", str(file), "-p", f"camera:={CAMERA}"]
    program = (
        f"import sys; sys.modules['{video.package}'] = None\n"
        "from piper_collect.nodes.start import start_node\n"
        f"sys.exit(start_node('camera_sim_node', {arguments!r}))"
    )
    process = ros_run.launch("camera_sim_node", [sys.executable, "-c", program], ROS_DISTRO=None)
    try:
        assert process.wait() == 1
    finally:
        process.end()
    said = process.log()
    apt = f"apt install ros-jazzy-{video.package.replace('_', '-')}"
    assert said.startswith(f"error: cameras.{CAMERA}.transport: {transport}: the messages of this transport")
    assert video.type_name in said
    assert f"-> {apt} (PyPI has no wheel of it), or set transport: compressed" in said
    assert said.count("\n") == 1


def test_a_size_that_cannot_be_encoded_is_one_line(ros_run, tmp_path, video_site):
    site = video_site("foxglove")
    config = config_of(tmp_path, "foxglove")
    odd = replace(config, cameras={CAMERA: replace(config.cameras[CAMERA], width=161)})
    file = tmp_path / "session.yaml"
    file.write_text(dump_session(odd), encoding="utf-8")
    command = [sys.executable, "-m", "piper_collect.nodes", "camera_sim_node", "--ros-args"]
    command += ["--params-file", str(file), "-p", f"camera:={CAMERA}"]
    process = ros_run.launch("camera_sim_node", command, PYTHONPATH=python_path(site))
    try:
        assert process.wait() == 1
    finally:
        process.end()
    said = process.log()
    assert said.startswith(f"error: cameras.{CAMERA} (transport foxglove): H.264 of 4:2:0 has an even number")
    assert "got 161x120 (width x height)" in said
    assert said.count("\n") == 1


def python_path(*sites: Path | None) -> str:
    return os.pathsep.join(map(str, [ROOT, *filter(None, sites)]))


def test_a_session_of_such_cameras_is_recorded_and_exported_without_encoding(ros_run, tmp_path, video_site):
    sites = [video_site(transport) for transport in TRANSPORTS]
    config = config_of(tmp_path / "recordings", "ffmpeg", episode_s=(2.0,), outcomes=("save",))
    other = replace(config.cameras[CAMERA], transport="foxglove")
    config = replace(
        config,
        cameras={CAMERA: config.cameras[CAMERA], "cam_wrist": other},
        desk=replace(config.desk, serve=False),
    )
    file = tmp_path / "session.yaml"
    file.write_text(dump_session(config), encoding="utf-8")
    process = ros_run.launch("record", record_command(file), PYTHONPATH=python_path(*sites))
    try:
        assert process.wait() == 0, process.log()
    finally:
        process.end()
    (bag_path,) = one_session(tmp_path / "recordings").glob("episode_*")
    with open_bag(bag_path) as bag:
        assert bag.topics[topic_of("ffmpeg")].type == VIDEO_MESSAGES["ffmpeg"].type_name
        assert bag.topics["/cam_wrist/image_raw/foxglove"].type == VIDEO_MESSAGES["foxglove"].type_name
    for profile in ("piper", "train"):
        root = tmp_path / profile
        made_of = load_profile(profile)
        summary = export([bag_path], root, ExportOptions(profile=made_of, allow_incomplete=True))
        assert [b.status for b in summary.bags] == ["exported"], summary.bags[0].reason
        findings = validate_dataset(root).report.findings
        assert [f for f in findings if f.level == "error"] == []
        frames = lines(root / "meta/episodes.jsonl")[0]["video_frame_lengths"]
        assert min(frames.values()) > 10
        if profile == "piper":
            cameras = sources(root)[0]["cameras"]
            assert {n: c["video"] for n, c in cameras.items()} == dict.fromkeys(cameras, "copied")
            strips = check_strips(root)
            assert strips.ok, strips
            assert strips.frames == sum(frames.values())


def test_what_is_recorded_is_what_was_sent(rig, video_site):
    cell = VideoCell(rig, config_of(rig.folder / "recordings", "ffmpeg"), video_site("ffmpeg"))
    cell.start_recorder()
    cell.start_episode()
    cell.hear(20)
    bag_path = cell.stop_episode()
    got = recorded(bag_path, "ffmpeg")
    assert len(got) >= 20
    sent = {packet.pts: bytes(packet.data) for packet in cell.heard}
    assert [bytes(packet.data) for packet in got] == [sent[packet.pts] for packet in got]
    with open_bag(bag_path) as bag:
        info = bag.topics[topic_of("ffmpeg")]
    name = VIDEO_MESSAGES["ffmpeg"].type_name
    assert info.type_hash == store().hash_rihs01(name)
    for field in VIDEO_DEFINITIONS[name].splitlines():
        assert field in info.message_definition


@pytest.mark.skipif("foxglove" in INSTALLED, reason="foxglove_msgs is installed here")
def test_a_recorder_without_the_messages_says_what_brings_them(rig, video_site):
    config = config_of(rig.folder / "recordings", "foxglove")
    rig.start("camera_sim_node", config, site=video_site("foxglove"), camera=CAMERA)
    studio = Studio(rig, config)
    video = VIDEO_MESSAGES["foxglove"]
    said = f"{topic_of('foxglove')}: type {video.type_name} is not installed here: "
    rig.until(lambda: studio.status and said in studio.status.message, "not told", meanwhile=studio.send)
    assert "-> apt install ros-" in studio.status.message
    assert not studio.start("stack the cups").success


def look_at(cell: VideoCell, bag_path: Path, gop: int):
    """The episode as an export reads it, against what the numbers of its packets say."""
    packets = recorded(bag_path, "ffmpeg")
    whole = decodable(packets, gop)
    with open_bag(bag_path) as bag:
        record = read_record(bag)
        episode = read_episode(bag, choose_config(bag, record)[0], record)
        camera = episode.cameras[CAMERA]
        assert camera.stamp_ns.tolist() == [stamp_of(p) for p, ok in zip(packets, whole, strict=True) if ok]
        assert strips_agree(camera.frames(0, 2**62)) == sum(whole)
    return packets, whole, episode.provenance["notes"], record


def exported(bag_path: Path, root: Path) -> None:
    """Every frame of the dataset shows the time that it is at."""
    summary = export([bag_path], root, ExportOptions(profile=load_profile("piper"), allow_incomplete=True))
    assert [b.status for b in summary.bags] == ["exported"], summary.bags[0].reason
    strips = check_strips(root)
    assert strips.ok, strips


def test_an_episode_that_begins_between_two_key_frames_has_all_that_its_first_frame_needs(rig, video_site):
    gop = 45
    config = config_of(rig.folder / "recordings", "ffmpeg", camera_gop=gop)
    cell = VideoCell(rig, config, video_site("ffmpeg"))
    cell.start_recorder()
    rig.until(lambda: cell.heard[-1].pts % gop == 2, "no key frame")
    cell.start_episode()
    begun = cell.heard[-1].pts
    cell.hear(20)
    bag_path = cell.stop_episode()
    packets, whole, notes, record = look_at(cell, bag_path, gop)
    assert all(whole)
    assert not [n for n in notes if "cannot be decoded" in n]
    numbers = [p.pts for p in packets]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert (numbers[0] % gop, begun - numbers[0] < gop) == (0, True)
    # what came before the start is there for the decoder alone
    assert stamp_of(packets[0]) < record.start_ns
    exported(bag_path, rig.folder / "dataset")
    first = sources(rig.folder / "dataset")[0]["t0_ns"]
    assert record.start_ns <= first < record.start_ns + 10**9
    findings = validate_bag(bag_path, profile=load_profile("piper")).findings
    assert [f for f in findings if f.level == "error"] == []
    assert [f for f in findings if CAMERA in str(f) and "before" in str(f)] == []


class HandMadeCamera:
    """Sends a picture of one stream whenever it is told to."""

    def __init__(self, rig) -> None:
        self.rig = rig
        self.publisher = rig.publisher(video_class("ffmpeg"), topic_of("ffmpeg"))
        self.begin()

    def begin(self) -> None:
        """With a key frame, the only one."""
        self.encoder = H264Encoder(*SIZE, fps=30.0, gop=ONE_KEY)
        self.sent_ns: list[int] = []

    def take(self, *, lost: bool = False) -> None:
        stamp_ns = self.rig.now_ns()
        rgb = np.full((SIZE[1], SIZE[0], 3), 100, np.uint8)
        write_strip(rgb, stamp_ns=stamp_ns, camera=0, frame=0)
        packet = self.encoder.encode(rgb)
        if lost:
            return
        message = video_class("ffmpeg")(width=SIZE[0], height=SIZE[1], encoding="h264", pts=packet.number)
        message.header.stamp = stamp_msg(stamp_ns)
        message.data = array("B", packet.data)
        self.publisher.publish(message)
        self.sent_ns.append(stamp_ns)


def test_a_recorder_that_comes_between_two_key_frames_has_nothing_before_the_second(rig, video_site, tally):
    config = config_of(rig.folder / "recordings", "ffmpeg")
    cell = VideoCell(rig, config, video_site("ffmpeg"), with_camera=False)
    camera = HandMadeCamera(rig)
    camera.take(lost=True)  # the key frame, before anybody listens
    cell.start_recorder(meanwhile=camera.take)
    cell.start_episode()
    for _ in range(2):
        first = len(cell.heard)
        for number in range(20):
            camera.take()
            rig.until(lambda n=first + number: len(cell.heard) > n, "a packet is missing")
        second, sent_ns = camera.sent_ns[-20:], camera.sent_ns
        camera.begin()
    bag_path = cell.stop_episode()
    packets, whole, notes, _ = look_at(cell, bag_path, ONE_KEY)
    before = whole.index(True)
    assert before >= 20
    assert [stamp_of(p) for p in packets[before:]] == second == sent_ns
    assert all(whole[before:])
    said = f"{CAMERA}: {before} frames before the first key frame cannot be decoded: left out"
    assert [n for n in notes if "cannot be decoded" in n] == [said]
    exported(bag_path, rig.folder / "dataset")
    tally("frames told that cannot be decoded", before)


def test_a_lost_packet_takes_the_frames_up_to_the_next_key_frame_with_it(rig, video_site, tally):
    gop, drop_every = 10, 23
    config = config_of(rig.folder / "recordings", "ffmpeg", camera_gop=gop, camera_drop_every=drop_every)
    cell = VideoCell(rig, config, video_site("ffmpeg"))
    cell.start_recorder()
    cell.start_episode()
    cell.hear(3 * drop_every)
    bag_path = cell.stop_episode()
    packets, whole, notes, _ = look_at(cell, bag_path, gop)
    numbers = [p.pts for p in packets]
    missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers))
    assert len(missing) >= 2
    before, lost = whole.index(True), whole[whole.index(True) :].count(False)
    said = [f"{CAMERA}: {before} frames before the first key frame cannot be decoded: left out"][: before > 0]
    said += [
        f"{CAMERA}: packets of the video were lost: {lost} frames, from there to the next key frame, "
        "cannot be decoded: left out"
    ][: lost > 0]
    assert before + lost > 0
    assert [n for n in notes if "cannot be decoded" in n] == said
    tally("frames told that cannot be decoded", before + lost)
    exported(bag_path, rig.folder / "dataset")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_camera_that_restarts_in_mid_episode_begins_with_a_key_frame(rig, video_site, number, tally):
    gop = 15
    cell = VideoCell(
        rig, config_of(rig.folder / "recordings", "ffmpeg", camera_gop=gop), video_site("ffmpeg")
    )
    cell.start_recorder()
    cell.start_episode()
    rig.until(lambda: cell.heard[-1].pts > gop and cell.heard[-1].pts % gop == 4, "no packet")
    rig.end(cell.camera, number)
    begun = len(cell.heard)
    cell.start_camera()
    rig.until(lambda: len(cell.heard) > begun + 2 * gop, "the camera is silent")
    bag_path = cell.stop_episode()
    packets, _, _, record = look_at(cell, bag_path, gop)
    numbers = [p.pts for p in packets]
    restarts = [k for k, (a, b) in enumerate(pairwise(numbers), start=1) if b < a]
    assert len(restarts) == 1
    # one that was killed is there for DDS a while longer
    how = "its publisher restarted 1 times" if number == signal.SIGINT else topic_of("ffmpeg")
    assert any(how in reason for reason in record.incomplete_reasons), record.incomplete_reasons
    tally("restarts survived")
    exported(bag_path, rig.folder / "dataset")
