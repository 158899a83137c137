"""Definitions, hashes and decoding without ROS."""

import struct

import pytest

from piper_collect.bag.definitions import Definitions, embedded_codec, full_type_name
from piper_collect.errors import BagError

POSE = "geometry_msgs/msg/PoseStamped"


def pose_cdr(order: str = "<", sec: int = 1700000000, nanosec: int = 5) -> bytes:
    """A PoseStamped in frame 'base': stamp, string (4+5 bytes, then padding to 8), seven doubles."""
    head = b"\x00\x01\x00\x00" if order == "<" else b"\x00\x00\x00\x00"
    frame = struct.pack(order + "I5s7x", 5, b"base\x00")
    return (
        head
        + struct.pack(order + "iI", sec, nanosec)
        + frame
        + struct.pack(order + "7d", 1, 2, 3, 0, 0, 0, 1)
    )


def test_hashes_are_those_of_recorded_bags():
    known = Definitions()
    # As rosbag2 on Jazzy writes them into metadata.yaml.
    assert known.type_hash("sensor_msgs/msg/JointState") == (
        "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e"
    )
    assert known.type_hash("sensor_msgs/msg/Imu") == (
        "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b"
    )


def test_definition_text_holds_all_it_needs():
    text = Definitions().definition("sensor_msgs/msg/JointState")
    separator = "=" * 80
    assert text == (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n"
        f"{separator}\nMSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n"
        f"{separator}\nMSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n"
    )


def test_own_types_are_learnt_from_a_folder(tmp_path):
    (tmp_path / "Mode.msg").write_text("uint8 OPEN=0\nuint8 ENGAGED=1\nuint8 value\n")
    (tmp_path / "Target.msg").write_text("std_msgs/Header header\nMode mode\ngeometry_msgs/Pose pose\n")
    known = Definitions()
    assert not known.knows("piper_collect/msg/Target")
    assert known.register_msgs(tmp_path) == ("piper_collect/msg/Mode", "piper_collect/msg/Target")
    assert known.knows("piper_collect/Target")
    text = known.definition("piper_collect/msg/Target")
    assert text.startswith("std_msgs/Header header\npiper_collect/Mode mode\ngeometry_msgs/Pose pose\n")
    assert "MSG: piper_collect/Mode\nuint8 OPEN=0\nuint8 ENGAGED=1\nuint8 value\n" in text
    assert known.type_hash("piper_collect/msg/Target").startswith("RIHS01_")
    codec = embedded_codec("piper_collect/msg/Target", text, "ros2msg")
    assert codec.starts_with_header
    assert known.codec("piper_collect/msg/Target").starts_with_header
    assert known.register_msgs(tmp_path) == ("piper_collect/msg/Mode", "piper_collect/msg/Target")


def test_a_bad_folder_is_named(tmp_path):
    known = Definitions()
    with pytest.raises(BagError, match="no message definitions"):
        known.register_msgs(tmp_path)
    (tmp_path / "Odd.msg").write_text("float64[ x")
    with pytest.raises(BagError, match=r"Odd\.msg"):
        known.register_msgs(tmp_path)
    (tmp_path / "Odd.msg").write_text("other_msgs/Missing part\n")
    known.register_msgs(tmp_path)
    for ask in (known.definition, known.type_hash):
        with pytest.raises(BagError, match="not whole"):
            ask("piper_collect/msg/Odd")
        with pytest.raises(BagError, match="no definition of this message type"):
            ask("other_msgs/msg/Missing")


def test_a_changed_definition_clashes(tmp_path):
    known = Definitions()
    (tmp_path / "A.msg").write_text("int32 x\n")
    known.register_msgs(tmp_path)
    (tmp_path / "A.msg").write_text("int32 y\n")
    with pytest.raises(BagError, match="clash"):
        known.register_msgs(tmp_path)


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders_decode(order):
    codec = Definitions().codec(POSE)
    payload = pose_cdr(order)
    message = codec.decode(payload)
    assert (message.header.stamp.sec, message.header.frame_id) == (1700000000, "base")
    assert (message.pose.position.y, message.pose.orientation.w) == (2.0, 1.0)
    assert codec.header_stamp_ns(payload) == 1700000000000000005
    assert codec.header_stamp_ns(memoryview(payload)) == 1700000000000000005


def test_stamps_as_written():
    codec = Definitions().codec(POSE)
    assert codec.header_stamp_ns(pose_cdr(sec=0, nanosec=0)) == 0
    assert codec.header_stamp_ns(pose_cdr(sec=-1, nanosec=999_999_999)) == -1
    known = Definitions()
    assert known.codec("std_msgs/msg/String").header_stamp_ns(b"") is None
    # tf2_msgs/TFMessage begins with an array of stamped transforms: no stamp of its own.
    assert known.codec("tf2_msgs/msg/TFMessage").header_stamp_ns(b"") is None


def test_trailing_bytes_are_ignored_and_missing_ones_are_not():
    codec = Definitions().codec(POSE)
    payload = pose_cdr()
    assert codec.decode(payload + bytes(range(13))).pose.position.x == 1.0
    for size in (0, 3, 4, 11, 20, len(payload) - 1):
        with pytest.raises(BagError):
            codec.decode(payload[:size])
    with pytest.raises(BagError, match="cut short"):
        codec.header_stamp_ns(payload[:11])


def test_other_encapsulations_are_refused():
    codec = Definitions().codec(POSE)
    for kind in (b"\x00\x03", b"\x00\x07", b"\x28\xb5"):
        with pytest.raises(BagError, match=f"got {kind.hex(' ')}"):
            codec.decode(kind + pose_cdr()[2:])


def test_a_cut_down_definition_is_believed():
    kind = "sensor_msgs/msg/JointState"
    codec = embedded_codec(kind, "string[] name\nfloat64[] position\n", "ros2msg")
    payload = b"\x00\x01\x00\x00" + struct.pack("<II3sxId", 1, 3, b"j1\x00", 1, 0.5)[:16]
    payload += struct.pack("<d", 0.5)
    message = codec.decode(payload)
    assert (message.name, message.position.tolist()) == (["j1"], [0.5])
    assert codec.header_stamp_ns(payload) is None
    assert Definitions().codec(kind).starts_with_header


def test_parts_a_definition_leaves_out_come_from_the_standard():
    codec = embedded_codec(POSE, "std_msgs/Header header\nPose pose\n", "ros2msg")
    assert codec.decode(pose_cdr()).pose.position.z == 3.0
    with pytest.raises(BagError, match="cannot be used"):
        embedded_codec("my_msgs/msg/A", "other_msgs/Missing[2] part\n", "ros2msg")
    with pytest.raises(BagError, match="cannot be used"):
        embedded_codec("my_msgs/msg/A", "not a definition", "ros2msg")


def test_idl_definitions_are_read():
    text = "module my_msgs { module msg { struct A { double x; }; }; };"
    codec = embedded_codec("my_msgs/msg/A", text, "ros2idl")
    assert codec.decode(b"\x00\x01\x00\x00" + struct.pack("<d", 2.5)).x == 2.5


def test_crystal_names():
    assert full_type_name("sensor_msgs/Image") == "sensor_msgs/msg/Image"
    assert full_type_name("sensor_msgs/msg/Image") == "sensor_msgs/msg/Image"
    assert full_type_name("odd") == "odd"
    assert Definitions().codec("geometry_msgs/PoseStamped").decode(pose_cdr()).pose.position.x == 1.0
