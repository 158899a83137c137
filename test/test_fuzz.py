"""Spoilt inputs: each is taken for what it says or refused by an error of ours, in little memory, and nothing
outside the folder that is written to is touched.

``PIPER_COLLECT_FUZZ=50`` tries fifty times as many, other ones in each run.
"""

import contextlib
import json
import shutil
import tracemalloc
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from bag_faults import ONE_CAMERA, messages
from dataset_cases import add, episode, open_writer, tree
from export_cases import run
from fuzz_support import fuzzed, spoilt
from hypothesis import given
from hypothesis import strategies as st
from sample_bags import (
    arm_status,
    camera_info,
    custom,
    joint_state,
    jpeg_image,
    picture,
    pose_stamped,
    quest_input,
    raw_image,
    store,
    teleop_target,
    write_bag,
)
from test_web_messages import INPUT

from piper_collect.bag.definitions import Definitions, embedded_codec
from piper_collect.bag.episode import camera_frame
from piper_collect.bag.reader import open_bag
from piper_collect.config.load import dump_session, session_from_text
from piper_collect.config.profile import load_profile
from piper_collect.config.share import share_dir
from piper_collect.core.naming import session_name
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.reader import open_dataset
from piper_collect.errors import BagError, ConfigError, ImageError, LinkError, PiperCollectError
from piper_collect.imaging.frames import to_video_frame
from piper_collect.pipelines.recover import recover
from piper_collect.web.messages import MOST_BYTES, parse_message

pytestmark = pytest.mark.usefixtures("no_sync")
MEGABYTE = 1 << 20
SIZE = (16, 24)
RGB = picture((200, 30, 40), *SIZE)
PAYLOADS = {
    message.__msgtype__: bytes(store().serialize_cdr(message, message.__msgtype__))
    for message in (
        joint_state(10**18, range(7)),
        pose_stamped(10**18, [1, 2, 3], [0, 0, 0, 1]),
        teleop_target(10**18, [1, 2, 3], [0, 0, 0, 1], 0.05),
        arm_status(10**18, "S-V1.8-5", ["a fault"]),
        quest_input(10**18, 7),
        camera_info(10**18),
        raw_image(10**18, RGB),
        jpeg_image(10**18, RGB),
    )
}


@contextlib.contextmanager
def at_most(megabytes):
    """No more memory may be taken than this."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MEGABYTE
    finally:
        tracemalloc.stop()


def quoted(err):
    """An error of ours is one line."""
    assert "\n" not in str(err)
    assert str(err)


@pytest.fixture(scope="module")
def codecs():
    known = Definitions()
    known.register_msgs(share_dir() / "msg")
    return {name: known.codec(name) for name in PAYLOADS}


LENGTHS = (
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"\x00\x00\x00\x80",
    b"\x00\x01",
    b"\x00\x00",
    b"\x28\xb5\x2f\xfd",
)


@pytest.mark.parametrize("kind", PAYLOADS, ids=lambda k: k.rpartition("/")[2])
def test_the_bytes_of_a_message_may_be_anything(kind, codecs, tally):

    @fuzzed(30)
    @given(spoilt(PAYLOADS[kind], LENGTHS))
    def look(payload):
        tally("inputs tried")
        codec = codecs[kind]
        for read in (codec.header_stamp_ns, codec.decode):
            try:
                message = read(payload)
            except BagError as err:
                quoted(err)
                continue
            if read is codec.decode and kind.endswith("Image"):
                try:
                    to_video_frame(camera_frame("/cam", message, 0))
                except ImageError as err:
                    quoted(err)

    with at_most(64):
        look()


def test_a_definition_in_a_bag_may_be_anything(tally):
    text = store().generate_msgdef("sensor_msgs/msg/JointState", ros_version=2)[0].encode()
    words = (
        b"[]",
        b"[<=9]",
        b"MSG: ",
        b"=" * 80,
        b"std_msgs/Header",
        b"string<=3",
        b"=1",
        b"#",
        b"[4294967295]",
    )

    @fuzzed(80)
    @given(spoilt(text, words), st.sampled_from(["ros2msg", "ros2idl"]))
    def look(definition, encoding):
        tally("inputs tried")
        try:
            codec = embedded_codec(
                "sensor_msgs/msg/JointState", definition.decode("utf-8", "replace"), encoding
            )
            codec.decode(PAYLOADS["sensor_msgs/msg/JointState"])
        except BagError as err:
            quoted(err)

    with at_most(64):
        look()


@pytest.fixture(scope="module", params=["mcap", "sqlite3"])
def recorded(request, tmp_path_factory):
    """A small recording, and the same rows however often it is exported."""
    folder = tmp_path_factory.mktemp(request.param)
    text = dump_session(ONE_CAMERA)
    path = write_bag(
        folder / "b", messages(40), custom(end_ms=200, session_config=text), storage=request.param
    )
    return path


def test_any_file_of_a_bag_may_be_anything(recorded, tmp_path_factory, tally):
    files = sorted(recorded.iterdir())

    @fuzzed(25)
    @given(st.data())
    def look(data):
        tally("inputs tried")
        place = tmp_path_factory.mktemp("spoilt")
        shutil.copytree(recorded, place / "b")
        file = data.draw(st.sampled_from(files))
        (place / "b" / file.name).write_bytes(data.draw(spoilt(file.read_bytes(), LENGTHS)))
        before = tree(place)
        try:
            with open_bag(place / "b") as opened:
                counts = {t: i.message_count for t, i in opened.topics.items()}
                read = list(opened.messages())
                if not opened.incomplete:
                    assert len(read) == sum(counts.values())
        except BagError as err:
            quoted(err)
        (outcome,) = run(place / "b", place / "ds", config=ONE_CAMERA).bags
        assert outcome.status in ("exported", "failed", "skipped")
        quoted(outcome.reason or "fine")
        after = tree(place)
        assert {name: after[name] for name in before} == before
        assert all(name in before or name.startswith(("ds", ".ds")) for name in after)

    look()


YAML_WORDS = (
    b"!!python/object/apply:os.system ['touch pwned']", b"!!python/name:os.system", b"&a [*a]", b"*a", b"? ",
    b"- ", b": ", b"\x00", b"\t", b"\xff", b"1e400", b".nan", b"2026-01-01", b"null", b"~", b"{", b"[" * 2000,
    b"../../etc", b"\xe2\x80\xa8", b"<<: ", b"0o777", b"true",
)  # fmt: skip


def test_a_configuration_may_be_anything(tmp_path, monkeypatch, tally):
    monkeypatch.chdir(tmp_path)
    text = dump_session(ONE_CAMERA).encode()

    @fuzzed(150)
    @given(spoilt(text, YAML_WORDS))
    def look(content):
        tally("inputs tried")
        try:
            config = session_from_text(content.decode("utf-8", "replace"), "a.yaml")
        except ConfigError as err:
            quoted(err)
        else:
            assert session_from_text(dump_session(config), "again") == config

    look()
    assert list(tmp_path.iterdir()) == []


def test_a_profile_may_be_anything(tmp_path, tally):
    text = (share_dir() / "config/profiles/train.yaml").read_bytes()
    file = tmp_path / "own.yaml"

    @fuzzed(80)
    @given(spoilt(text, YAML_WORDS))
    def look(content):
        tally("inputs tried")
        file.write_bytes(content)
        try:
            load_profile(file)
        except ConfigError as err:
            quoted(err)

    look()
    assert [p.name for p in tmp_path.iterdir()] == ["own.yaml"]


BOMBS = {
    "aliases": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{chr(98 + k)}: &{chr(98 + k)} [{', '.join(['*' + chr(97 + k)] * 9)}]\n" for k in range(9)),
    "deep": "/**: " + "{a: " * 5000,
    "deep lists": "[" * 50_000,
    "digits": "/**: {ros__parameters: {session: {fps: " + "9" * 20_000 + "}}}",
    "long key": "? " + "x" * 5000 + "\n: 1",
    "itself": "/**: &a\n  ros__parameters: *a",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_configuration_that_grows_when_it_is_read_is_refused(name):
    with at_most(64), pytest.raises(ConfigError) as refused:
        session_from_text(BOMBS[name], "a.yaml")
    quoted(refused.value)
    assert len(str(refused.value)) < 2000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    root = tmp_path_factory.mktemp("dataset") / "ds"
    writer = open_writer(root)
    for number in range(2):
        add(writer, episode(f"pick/episode_{number:06d}"), bag=f"episode_{number:06d}")
    return root


JSON_WORDS = (
    b'"', b"null", b"-1", b"1e999", b"NaN", b"[" * 3000, b"{", b"}", b"\n", b"\x00", b"../../", b'"/etc"',
    b"99999999999999999999", b"0", b"\\ud800", b",",
)  # fmt: skip


def test_the_metadata_of_a_dataset_may_be_anything_to_who_adds_to_it_or_takes_away(
    dataset, tmp_path_factory, tally
):
    names = sorted(p.relative_to(dataset) for p in (dataset / "meta").iterdir() if p.is_file())

    @fuzzed(25)
    @given(st.data())
    def look(data):
        tally("inputs tried")
        place = tmp_path_factory.mktemp("spoilt")
        (place / "beside").write_text("mine")
        root = place / "ds"
        shutil.copytree(dataset, root)
        name = data.draw(st.sampled_from(names))
        (root / name).write_bytes(data.draw(spoilt((root / name).read_bytes(), JSON_WORDS)))
        for change in (
            lambda: add(open_writer(root), episode("pick/episode_000002"), bag="episode_000002"),
            lambda: delete_episodes(root, [0]),
        ):
            try:
                change()
            except PiperCollectError as err:
                quoted(err)
        assert sorted(p.name for p in place.iterdir() if not p.name.startswith(".")) == ["beside", "ds"]
        with contextlib.suppress(PiperCollectError):
            open_dataset(root).rows(0)

    look()


SOCKET_WORDS = (*JSON_WORDS, b'"type":"pair"', b'"code":', b'"pass":', b"Infinity", b"true", b"[[" * 500)


def test_a_message_of_a_page_may_be_anything(tally):
    text = json.dumps(INPUT).encode()

    @fuzzed(100)
    @given(spoilt(text, SOCKET_WORDS))
    def look(content):
        tally("inputs tried")
        try:
            parse_message(content.decode("utf-8", "replace"))
        except LinkError as err:
            quoted(err)

    with at_most(32):
        look()
    for bomb in (
        "[" * 30_000,
        '{"a":' * 10_000,
        "9" * 30_000,
        '{"type": "input", "sequence": ' + "9" * 5000 + "}",
    ):
        with pytest.raises(LinkError):
            parse_message(bomb[:MOST_BYTES])


# -- names that lead elsewhere -------------------------------------------------------------------

NAMES = [
    "../../outside", "/etc/cron.d/x", "a\x00b", "line\nbreak", "..", ".", "~/x", "CON", "a" * 4000, "\u202ex",
    "{episode_index}", "%s%n", "`id`", "$(id)", "<script>", "\ud800", "é/../..",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_in_a_recording_lead_nowhere(name, tmp_path):
    """Task and session are called what would be a path, and nothing is written but the dataset."""
    outside = tmp_path / "deep" / "er"
    plain = name.encode("utf-8", "replace").decode()
    session = json.dumps({"session": plain})
    known = {"task": plain, "session": plain, "session_record": session}
    config = dump_session(ONE_CAMERA)
    path = write_bag(outside / "b", messages(40), custom(end_ms=200, session_config=config) | known)
    before = tree(tmp_path)
    (outcome,) = run(path, outside / "ds").bags
    assert outcome.status in ("exported", "failed"), outcome.reason
    after = tree(tmp_path)
    assert {n: after[n] for n in before} == before
    assert all(n in before or n.startswith("deep/er/ds") for n in after)
    if outcome.status == "exported" and plain.strip():
        tasks = (outside / "ds/meta/tasks.jsonl").read_text(encoding="utf-8").split("\n")
        assert plain in [json.loads(line)["task"] for line in tasks if line]


def test_a_task_makes_one_folder_below_the_root_whatever_it_is_called(tally):

    @fuzzed(200)
    @given(st.one_of(st.text(), st.sampled_from(NAMES)))
    def look(task):
        tally("inputs tried")
        name = session_name(task, datetime(2026, 1, 2))
        assert (Path("recordings") / name).parent == Path("recordings")
        assert name not in (".", "..")
        assert "\x00" not in name
        assert len(name.encode()) < 255

    look()


def test_yaml_never_makes_objects_of_the_language(tmp_path):
    text = "/**: {ros__parameters: {session: {task: !!python/object/apply:os.system ['touch " + str(
        tmp_path / "x"
    )
    for loaded in (text + "']}}}", "!!python/object/new:type {}"):
        with pytest.raises(ConfigError, match="not valid YAML"):
            session_from_text(loaded, "a.yaml")
    assert not (tmp_path / "x").exists()
    assert yaml.SafeLoader in type(yaml.SafeLoader("")).__mro__


def test_what_a_recorder_left_may_be_called_anything(tmp_path):
    left = tmp_path / ".recording" / "episode_000000"
    left.mkdir(parents=True)
    (left / "..\n.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(90))
    before = tree(tmp_path)
    (result,) = recover([left])
    assert result.status in ("empty", "failed")
    assert {n: v for n, v in tree(tmp_path).items() if n in before} == before
