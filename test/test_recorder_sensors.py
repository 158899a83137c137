"""The recorder with sensors and depth: what is published over DDS comes out of the bag as it was sent."""

from dataclasses import replace

import numpy as np
from recorder_studio import Studio, config_of
from ros_support import one_session

from piper_collect.bag.episode import read_episode
from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import CameraSettings, SourceSettings
from piper_collect.core.types import depth_name
from piper_collect.imaging.depth import to_millimetres

COUNT = 12
SIZE = (6, 8)


def distances(number: int) -> np.ndarray:
    return (np.arange(48, dtype=np.uint16) * 1000 + number).reshape(SIZE)


def test_sensors_and_depth_are_recorded_as_they_are_sent(rig):
    from geometry_msgs.msg import WrenchStamped
    from sensor_msgs.msg import Image, Imu
    from std_msgs.msg import Float32MultiArray

    from piper_collect.nodes.convert import stamp_msg

    base = config_of(rig.folder / "recordings")
    sensors = {
        "wrench": SourceSettings(topic="wrist/wrench", field="wrench"),
        "turn": SourceSettings(topic="wrist/imu", field="orientation"),
        "tactile": SourceSettings(topic="fingers/tactile", field="data"),
    }
    camera = CameraSettings(transport="raw", required=False, depth_topic="cam/depth")
    config = replace(base, sources={**base.sources, **sensors}, cameras={"cam": camera})
    studio = Studio(rig, config)
    kinds = {
        "wrist/wrench": WrenchStamped,
        "wrist/imu": Imu,
        "fingers/tactile": Float32MultiArray,
        "cam/depth": Image,
    }
    publishers = {topic: rig.publisher(kind, topic) for topic, kind in kinds.items()}
    sent: list[int] = []

    def publish() -> None:
        number, stamp_ns = len(sent), rig.now_ns()
        wrench, imu, image = WrenchStamped(), Imu(), Image(height=6, width=8, encoding="16UC1", step=16)
        for message in (wrench, imu, image):
            message.header.stamp = stamp_msg(stamp_ns)
        wrench.wrench.force.x, wrench.wrench.torque.z = float(number), 0.5
        imu.orientation.z, imu.orientation.w = 0.6, 0.8
        image.data = distances(number).tobytes()
        tactile = Float32MultiArray(data=[float(number), 0.25])
        for topic, message in zip(kinds, (wrench, imu, tactile, image), strict=True):
            publishers[topic].publish(message)
        sent.append(stamp_ns)
        studio.send()

    studio.until_state(1, meanwhile=publish)
    rig.until(lambda: studio.topic("/cam/depth").age_s >= 0, "no depth is heard", meanwhile=publish)
    assert studio.start().success
    sent.clear()
    for _ in range(COUNT):
        publish()
        rig.spin(0.01)
    rig.until(
        lambda: all(studio.topic(f"/{topic}").messages >= COUNT for topic in kinds),
        "the recorder did not count what was published",
    )
    assert studio.trigger("stop_episode").success
    with open_bag(one_session(studio.root) / "episode_000000") as bag:
        raw = read_episode(bag, config, depth=True)
        frames = list(raw.cameras[depth_name("cam")].frames(raw.start_ns, raw.end_ns))
    found = raw.streams["wrench"]
    assert found.stamp_ns[-COUNT:].tolist() == sent
    assert found.values[-COUNT:, 0].tolist() == [float(k) for k in range(COUNT)]
    assert set(found.values[-COUNT:, 5]) == {0.5}
    assert raw.streams["turn"].values[-1].tolist() == [0.8, 0.0, 0.0, 0.6]
    tactile = raw.streams["tactile"]
    assert tactile.values[-COUNT:].tolist() == [[float(k), 0.25] for k in range(COUNT)]
    assert tactile.stamp_source == "receive"
    assert raw.provenance["clocks"] == {"/fingers/tactile": "receive time: the messages have no header"}
    assert [f.stamp_ns for f in frames[-COUNT:]] == sent
    assert all(np.array_equal(to_millimetres(f), distances(k)) for k, f in enumerate(frames[-COUNT:]))
