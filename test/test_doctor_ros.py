"""Two doctors on real DDS: a healthy rig, of which nothing is said, and one with a fault on every topic."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from ros_support import rig_in

from piper_collect.config.load import dump_session
from piper_collect.config.schema import CameraSettings, SessionConfig, SourceSettings

PERIOD_NS = 50_000_000
FRAME_NS = 100_000_000
MS = 1_000_000
SIX = ("joint1", "joint2", "joint3", "joint4", "joint5", "joint6")
WIDTH, HEIGHT = 32, 24

JOINTS = {"field": "position", "select": SIX, "unit": "rad", "max_age_ms": 200.0}
POSE = {"field": "pose", "unit": "m", "max_age_ms": 200.0}


def config_of(root, space, sources, cameras, arm="none"):
    base = SessionConfig()
    camera = {"transport": "raw", "width": WIDTH, "height": HEIGHT, "fps": 10.0, "max_age_ms": 300.0}
    return replace(
        base,
        session=replace(base.session, root=str(root), task="stack the cups", namespace=space, fps=10.0),
        devices=replace(base.devices, arm=arm, cameras="none", operator="none"),
        cameras={name: CameraSettings(**{**camera, **more}) for name, more in cameras.items()},
        sources={key: SourceSettings(**settings) for key, settings in sources.items()},
        recorder=replace(base.recorder, fresh_s=60.0, extra_topics=(), min_free_gb=0.0),
    )


GOOD_SOURCES = {
    "arm_joint": {"topic": "arm/joint_states", **JOINTS},
    "gripper": {"topic": "arm/joint_states", **JOINTS, "select": ("gripper",), "unit": "m"},
    "arm_eef": {"topic": "arm/flange_pose", **POSE},
}
BAD_SOURCES = {
    "best_effort": {"topic": "arm/joint_states", **JOINTS},
    "wrong_type": {"topic": "wrong_type", **JOINTS},
    "zero": {"topic": "zero", **JOINTS},
    "ahead": {"topic": "ahead", **JOINTS},
    "behind": {"topic": "behind", **JOINTS},
    "backwards": {"topic": "backwards", **JOINTS},
    "twice": {"topic": "twice", **JOINTS},
    "other_epoch": {"topic": "other_epoch", **JOINTS},
    "slow": {"topic": "slow", **JOINTS},
    "unstamped": {"topic": "unstamped", "field": "data", "max_age_ms": 200.0},
    "missing": {"topic": "gripper_states", **JOINTS},
    "twofold": {"topic": "twofold", **JOINTS},
    "unnamed": {"topic": "unnamed", **JOINTS},
    "undecodable": {"topic": "undecodable", **JOINTS},
    "too_short": {"topic": "too_short", **JOINTS},
    "wrong_frame": {"topic": "wrong_frame", **POSE},
    "silent": {"topic": "silent", **JOINTS},
}
BAD_CAMERAS = {
    "frozen": {},
    "black": {},
    "unknown": {},
    "large": {"width": 64, "height": 48},
    "slow_cam": {},
    "packed": {"transport": "compressed"},
}

EXPECTED = {
    ("ROS domain", "another session"): ("FAIL", "/bench publishes a recorder's status"),
    ("/bad/arm/joint_states", "QoS"): (
        "FAIL",
        "teleop_node would hear nothing of /bench: reliability: best_effort is offered, reliable is ",
    ),
    ("/bad/wrong_type", "content"): (
        "FAIL",
        "geometry_msgs/msg/PoseStamped has no such field (got position)",
    ),
    ("/bad/zero", "stamps"): ("FAIL", "are zero: these messages would be aligned by their times of receipt"),
    ("/bad/ahead", "clock"): ("FAIL", "after their receipt: its clock runs ahead"),
    ("/bad/behind", "clock"): ("FAIL", "before their receipt: a clock behind, or held up"),
    ("/bad/backwards", "order of stamps"): ("warn", "lie before one received earlier"),
    ("/bad/twice", "equal stamps"): ("warn", "equal the one before"),
    ("/bad/other_epoch", "clock"): ("FAIL", "days from this machine's time: another epoch"),
    ("/bad/slow", "rate"): ("FAIL", "2.0 Hz: rows would repeat values"),
    ("/bad/unstamped", "stamps"): ("warn", "the type has none"),
    ("/bad/gripper_states", "publisher"): ("FAIL", "nobody publishes it"),
    ("/bad/twofold", "publisher"): ("FAIL", "2 publishers send on it (/bench, /deaf_0)"),
    ("/bad/unnamed", "content"): ("FAIL", "messages cannot be read: source unnamed (topic /bad/unnamed): "),
    ("/bad/undecodable", "content"): ("FAIL", "message cannot be decoded"),
    ("/bad/too_short", "content"): ("FAIL", "messages cannot be read"),
    ("/bad/too_short", "stamps"): ("FAIL", "are zero"),
    ("/bad/wrong_frame", "content"): ("FAIL", "expected base_link, got world"),
    ("/bad/joint_states_single", "content"): (
        "FAIL",
        "it does not name six joints and the gripper (named joint1",
    ),
    ("/bad/silent", "messages"): ("FAIL", "no message yet"),
    ("/bad/frozen/image_raw", "picture"): ("FAIL", "frozen: "),
    ("/bad/black/image_raw", "picture"): ("FAIL", "black (brightness "),
    ("/bad/unknown/image_raw", "content"): ("FAIL", "rgb16"),
    ("/bad/large/image_raw", "picture size"): ("warn", "32x24 px"),
    ("/bad/slow_cam/image_raw", "rate"): ("warn", "4.0 Hz"),
    ("/bad/packed/image_raw/compressed", "publisher"): (
        "FAIL",
        "nobody publishes it, but /bad/packed/image_raw",
    ),
    ("sources and cameras", "clocks"): ("FAIL", "/bad/behind comes "),
}


class Feed:
    """Sends the messages of one topic when they are due, late ones too, each stamped with when it was due."""

    def __init__(self, rig, publisher, make, period_ns=PERIOD_NS):
        self.rig, self.publisher, self.make, self.period_ns = rig, publisher, make, period_ns
        self.begin_ns, self.count = rig.now_ns(), 0

    def send_due(self):
        while (due_ns := self.begin_ns + self.count * self.period_ns) <= self.rig.now_ns():
            self.publisher.publish(self.make(self.count, due_ns))
            self.count += 1


def joints(shift_ns=0, names=(*SIX, "gripper")):
    from piper_collect.nodes.convert import joint_state_msg

    def make(_count, due_ns):
        message = joint_state_msg(due_ns + shift_ns, [0.1] * 6, 0.05)
        message.name = list(names)
        return message

    return make


def joints_at(stamp_of):
    make = joints()
    return lambda count, due_ns: make(count, stamp_of(count, due_ns))


def cut(length):
    from rclpy.serialization import serialize_message

    make = joints()
    return lambda count, due_ns: serialize_message(make(count, due_ns))[:length]


def poses(frame):
    from geometry_msgs.msg import PoseStamped

    from piper_collect.nodes.convert import stamp_msg

    def make(_count, due_ns):
        message = PoseStamped()
        message.header.stamp, message.header.frame_id = stamp_msg(due_ns), frame
        message.pose.orientation.w = 1.0
        return message

    return make


def images(pixels_of, encoding="rgb8"):
    from sensor_msgs.msg import Image

    from piper_collect.nodes.convert import stamp_msg

    def make(count, due_ns):
        pixels = pixels_of(count)
        message = Image(height=HEIGHT, width=WIDTH, encoding=encoding, step=pixels.nbytes // HEIGHT)
        message.header.stamp = stamp_msg(due_ns)
        message.data = pixels.tobytes()
        return message

    return make


def noise(count):
    return np.random.default_rng(count).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)


def healthy_feeds(rig):
    from geometry_msgs.msg import PoseStamped
    from sensor_msgs.msg import CameraInfo, Image, JointState

    from piper_collect.nodes.convert import stamp_msg

    def info(_count, due_ns):
        message = CameraInfo()
        message.header.stamp = stamp_msg(due_ns)
        return message

    return [
        Feed(rig, rig.publisher(JointState, "/good/arm/joint_states"), joints()),
        Feed(rig, rig.publisher(PoseStamped, "/good/arm/flange_pose"), poses("base_link")),
        Feed(rig, rig.publisher(Image, "/good/cam/image_raw"), images(noise), FRAME_NS),
        Feed(rig, rig.publisher(CameraInfo, "/good/cam/camera_info"), info, FRAME_NS),
    ]


def faulty_feeds(rig):
    from geometry_msgs.msg import PoseStamped
    from piper_collect.msg import RecorderStatus
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import Image, JointState
    from std_msgs.msg import Float64MultiArray

    from piper_collect.nodes.qos import STREAM_QOS

    def feed(kind, name, make, period_ns=PERIOD_NS, **qos):
        return Feed(rig, rig.publisher(kind, f"/bad/{name}", **qos), make, period_ns)

    rig.publisher(RecorderStatus, "/bad/recorder/status")
    rig.publisher(JointState, "/bad/silent")
    rig.deaf_node().create_publisher(JointState, "/bad/twofold", STREAM_QOS)
    best_effort = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
    pictures = {
        "frozen": images(lambda _count: noise(0)),
        "black": images(lambda count: np.full((HEIGHT, WIDTH, 3), count % 2, np.uint8)),
        "unknown": images(lambda _count: np.zeros((HEIGHT, WIDTH, 3), np.uint16), "rgb16"),
        "large": images(noise),
        "packed": images(noise),
    }
    return [
        feed(JointState, "arm/joint_states", joints(), qos=best_effort),
        feed(PoseStamped, "wrong_type", poses("base_link")),
        feed(JointState, "zero", joints_at(lambda count, due_ns: 0)),
        feed(JointState, "ahead", joints(500 * MS)),
        feed(JointState, "behind", joints(-2_000 * MS)),
        feed(JointState, "backwards", joints_at(lambda n, due: due - (130 * MS if n % 10 == 9 else 0))),
        feed(JointState, "twice", joints_at(lambda n, due: due - (n % 2) * PERIOD_NS)),
        feed(JointState, "other_epoch", joints_at(lambda n, due: due % (86_400_000 * MS) + MS)),
        feed(JointState, "slow", joints(), 500 * MS),
        feed(Float64MultiArray, "unstamped", lambda n, due: Float64MultiArray(data=[float(n)])),
        feed(JointState, "gripper_state", joints()),
        feed(JointState, "twofold", joints()),
        feed(JointState, "unnamed", joints(names=())),
        feed(JointState, "joint_states_single", joints(names=SIX)),
        feed(JointState, "undecodable", cut(40)),
        feed(JointState, "too_short", cut(8)),
        feed(PoseStamped, "wrong_frame", poses("world")),
        *[feed(Image, f"{name}/image_raw", make, FRAME_NS) for name, make in pictures.items()],
        feed(Image, "slow_cam/image_raw", images(noise), 250 * MS),
    ]


@pytest.fixture(scope="module")
def doctors(ros_run, tmp_path_factory):
    """What the doctors of the healthy and of the faulty rig said: exit code, JSON, output."""
    folder = tmp_path_factory.mktemp("doctor")
    configs = {
        "good": config_of(folder / "bags", "good", GOOD_SOURCES, {"cam": {}}),
        "bad": config_of(folder / "bags", "bad", BAD_SOURCES, BAD_CAMERAS, arm="bridge"),
    }
    with rig_in(ros_run, folder) as rig:
        feeds = [*healthy_feeds(rig), *faulty_feeds(rig)]
        running = {}
        for name, config in configs.items():
            (folder / f"{name}.yaml").write_text(dump_session(config), encoding="utf-8")
            command = [
                sys.executable,
                "-m",
                "piper_collect",
                "doctor",
                "--config",
                str(folder / f"{name}.yaml"),
            ]
            command += ["--seconds", "3", "--json", str(folder / f"{name}.json")]
            running[name] = rig.add(ros_run.launch(f"doctor_{name}", command))
            running[name].may_end = True
        rig.until(
            lambda: all(process.exit_code() is not None for process in running.values()),
            "the doctors have not come to an end",
            meanwhile=lambda: [feed.send_due() for feed in feeds],
        )
        yield {
            name: (process.exit_code(), json.loads((folder / f"{name}.json").read_text()), process.log())
            for name, process in running.items()
        }
    assert not (folder / "bags").exists(), "a doctor wrote something"


def of_topics(report):
    return [check for check in report["checks"] if check["group"] == "topics"]


def test_of_a_healthy_rig_nothing_is_said(doctors):
    code, report, log = doctors["good"]
    flaws = [check for check in of_topics(report) if check["level"] != "ok"]
    assert flaws == []
    assert (code, report["ok"]) == (0, True), log
    said = {(check["where"], check["what"]): check["found"] for check in of_topics(report)}
    assert said["/good/arm/joint_states", "rate"] == "20.0 Hz"
    assert said["/good/cam/image_raw", "rate"] == "10.0 Hz"
    assert said["/good/cam/image_raw", "pictures"] == "32x24 px, rgb8"
    assert said["/good/arm/flange_pose", "publisher"] == "/bench"
    assert "ready" in log.splitlines()[-1]


@pytest.mark.parametrize("place", EXPECTED, ids=lambda place: f"{place[0]} {place[1]}")
def test_each_planted_fault_is_found(doctors, place):
    level, text = EXPECTED[place]
    found = [c for c in of_topics(doctors["bad"][1]) if (c["where"], c["what"]) == place]
    assert len(found) == 1
    assert (found[0]["level"], text in found[0]["found"]) == (level, True), found[0]["found"]


def test_nothing_else_is_found_and_the_end_is_no(doctors):
    code, report, log = doctors["bad"]
    flaws = {(c["where"], c["what"]) for c in of_topics(report) if c["level"] != "ok"}
    assert flaws == set(EXPECTED)
    assert (code, report["ok"]) == (1, False)
    assert log.splitlines()[-1].startswith("not ready: ")
    assert "\x1b" not in log


def test_a_missing_topic_is_told_with_the_nearest_one(doctors):
    (check,) = [c for c in of_topics(doctors["bad"][1]) if c["where"] == "/bad/gripper_states"]
    assert "sources.missing (there are: /bad/gripper_state" in check["hint"]
