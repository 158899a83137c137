"""What publishers do in the middle of an episode: told live, and kept with the episode."""

import json
from dataclasses import replace

import numpy as np
import pytest
from recorder_studio import JOINTS, READY, TARGET, Studio, config_of, stamps_by_every_reader
from ros_support import one_session, rig_in

from piper_collect.bag.reader import open_bag
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export

CAMERA, EXTRA, LATE = "/cam_front/image_raw", "/extra", "/late"


class Stage:
    """A recorder with a camera, and publishers of the test that misbehave."""

    def __init__(self, rig):
        from sensor_msgs.msg import Image

        config = config_of(rig.folder / "recordings", extra=(EXTRA, LATE))
        camera = CameraSettings(transport="raw", width=16, height=8)
        self.studio = Studio(rig, replace(config, cameras={"cam_front": camera}))
        self.rig = rig
        self.camera = rig.publisher(Image, CAMERA)
        self.shown = 0
        self.size, self.level, self.frozen = (8, 16), 100, False
        self.stamp = None

    def turn(self):
        """One message of each."""
        from sensor_msgs.msg import Image

        from piper_collect.nodes.convert import stamp_msg

        self.studio.send()
        self.shown += not self.frozen
        pixels = np.full((*self.size, 3), self.level, np.uint8)
        if self.level:
            pixels[::2] = self.shown % 50
        height, width = self.size
        message = Image(height=height, width=width, encoding="rgb8", step=3 * width, data=pixels.tobytes())
        message.header.stamp = self.stamp or stamp_msg(self.rig.now_ns())
        self.camera.publish(message)

    def until_told(self, topic, words):
        self.rig.until(
            lambda: words in self.studio.topic(topic).reason, f"not told: {words}", meanwhile=self.turn
        )


@pytest.fixture(scope="module")
def episode(ros_run, tmp_path_factory):
    """One episode in which everything goes wrong that may; what was said at its stop."""
    from piper_collect.msg import TeleopTarget
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    from sensor_msgs.msg import JointState
    from std_msgs.msg import String

    from piper_collect.nodes.convert import stamp_msg

    with rig_in(ros_run, tmp_path_factory.mktemp("publishers")) as rig:
        stage = Stage(rig)
        studio, node = stage.studio, rig.node
        extra = rig.publisher(JointState, EXTRA)
        studio.until_state(READY, meanwhile=stage.turn)
        assert studio.start(sent_before=True).success

        stage.frozen = True
        stage.until_told(CAMERA, "its picture is frozen")
        stage.frozen, stage.level = False, 0
        stage.until_told(CAMERA, "its pictures are black")
        stage.level, stage.size = 100, (4, 8)
        stage.until_told(CAMERA, "its pictures changed from 16x8 rgb8 to 8x4 rgb8")

        stage.stamp = stamp_msg(rig.now_ns())
        stage.until_told(CAMERA, "its stamp stands still for ")
        stage.stamp = None

        second = rig.publisher(TeleopTarget, TARGET)
        stage.until_told(TARGET, "2 publishers send on it (/bench, /bench)")
        node.destroy_publisher(second)
        rig.until(lambda: node.count_publishers(TARGET) == 1, "it stays", meanwhile=stage.turn)

        node.destroy_publisher(studio.publishers[JOINTS])
        best_effort = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
        studio.publishers[JOINTS] = rig.publisher(JointState, JOINTS, best_effort)
        stage.until_told(JOINTS, "its publisher changed its QoS from reliable, volatile to best_effort")
        heard = studio.topic(JOINTS).messages
        rig.until(lambda: studio.topic(JOINTS).messages > heard, "deaf", meanwhile=stage.turn)

        rig.until(extra.get_subscription_count, "nobody subscribes to the extra topic")
        extra.publish(JointState())
        rig.until(lambda: studio.topic(EXTRA).messages == 1, "the extra topic is not recorded")
        node.destroy_publisher(extra)
        other = rig.publisher(String, EXTRA)
        stage.until_told(EXTRA, "its type changed from sensor_msgs/msg/JointState to std_msgs/msg/String")
        other.publish(String(data="not for this bag"))
        late = rig.publisher(JointState, LATE)
        rig.until(late.get_subscription_count, "nobody subscribes to the late topic")
        late.publish(JointState())
        rig.until(lambda: studio.topic(LATE).messages == 1, "the late topic is not recorded")
        stage.until_told(LATE, "its publisher was found only after the episode began")

        studio.said = studio.trigger("stop_episode").message
        studio.episode = one_session(studio.root) / "episode_000000"
        return studio


def test_the_answer_to_the_stop_and_the_episode_name_each_flaw(episode, tally):
    record = json.loads((episode.episode / "episode.json").read_text())
    assert (record["outcome"], record["complete"]) == ("success", False)
    wanted = {
        CAMERA: (
            "its picture is frozen for ",
            "its pictures are black for ",
            "its pictures changed from 16x8",
            "its stamp stands still for ",
        ),
        TARGET: ("2 publishers send on it (/bench, /bench)",),
        JOINTS: ("its publisher restarted 1 times", "its publisher changed its QoS"),
    }
    for topic, flaws in wanted.items():
        for flaw in flaws:
            said = f"{topic}: {flaw}"
            assert any(reason.startswith(said) for reason in record["incomplete_reasons"]), said
            assert said in episode.said
            tally("flaws told live and kept")
    assert any(flaw.startswith("its type changed from") for flaw in record["topics"][EXTRA]["flaws"])
    assert record["topics"][LATE]["flaws"] == ["its publisher was found only after the episode began"]
    assert not any(reason.startswith((EXTRA, LATE)) for reason in record["incomplete_reasons"])


def test_the_bag_holds_one_type_a_topic_and_reads_whole(episode):
    ours, theirs, plain = stamps_by_every_reader(episode.episode)
    assert ours == theirs
    assert plain == {topic: len(stamps) for topic, stamps in ours.items()}
    assert (len(ours[EXTRA]), len(ours[LATE])) == (1, 1)
    with open_bag(episode.episode) as bag:
        assert bag.topics[EXTRA].type == "sensor_msgs/msg/JointState"


def test_an_export_leaves_it_out_with_the_reasons(episode, tmp_path):
    (bag,) = export([episode.root], tmp_path / "ds", ExportOptions(profile=load_profile("piper"))).bags
    assert bag.status == "skipped"
    assert "its picture is frozen" in bag.reason
