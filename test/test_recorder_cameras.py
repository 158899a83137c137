"""The recorder and its cameras: encodings, drivers that send on demand, and which device is behind a name."""

import json
from dataclasses import replace

import numpy as np
import pytest
from recorder_studio import READY, WAITING, Studio, config_of
from ros_support import one_session

from piper_collect.bag.reader import open_bag
from piper_collect.config.schema import CameraSettings

TOPIC = "/camera/cam_front/color/image_raw"


def camera_config(root, *, devices="none", transport="raw", **settings):
    camera = CameraSettings(topic=TOPIC, transport=transport, **settings)
    config = config_of(root)
    return replace(config, cameras={"cam_front": camera}, devices=replace(config.devices, cameras=devices))


class Camera:
    """A driver of the test: 16 x 8 pixels of one encoding, sent only while somebody listens."""

    def __init__(self, studio: Studio, encoding: str = "rgb8") -> None:
        from sensor_msgs.msg import Image

        self.studio, self.encoding = studio, encoding
        self.publisher = studio.rig.publisher(Image, TOPIC)
        self.sent: list[int] = []
        self.unheard = 0

    def capture(self) -> None:
        """What the driver does for each frame of its sensor."""
        from sensor_msgs.msg import Image

        from piper_collect.nodes.convert import stamp_msg

        if not self.publisher.get_subscription_count():
            self.unheard += 1
            return
        stamp_ns = self.studio.rig.now_ns()
        step = 16 * {"rgb8": 3, "16UC1": 2}[self.encoding]
        pixels = np.full(8 * step, 100 + len(self.sent) % 100, np.uint8)  # neither black nor frozen
        message = Image(height=8, width=16, encoding=self.encoding, step=step)
        message.header.stamp = stamp_msg(stamp_ns)
        message.data = pixels.tobytes()
        self.publisher.publish(message)
        self.sent.append(stamp_ns)

    def stop(self) -> None:
        """The driver ends."""
        self.studio.rig.node.destroy_publisher(self.publisher)


def feed(studio, *cameras):
    def once():
        studio.send()
        for camera in cameras:
            camera.capture()

    return once


def test_a_camera_of_depth_images_is_refused_before_an_episode_by_topic_and_encoding(rig):
    studio = Studio(rig, camera_config(rig.folder / "recordings"))
    camera = Camera(studio, "16UC1")
    said = f"camera cam_front (topic {TOPIC}): depth images do not become video (got 16UC1)"
    rig.until(
        lambda: studio.status and studio.status.state == WAITING and said in studio.status.message,
        "the encoding is not refused",
        meanwhile=feed(studio, camera),
    )
    answer = studio.start("stack the cups")
    assert not answer.success
    assert said in answer.message
    assert not (rig.folder / "recordings").exists()


def test_a_camera_that_comes_back_with_another_encoding_is_looked_at_again(rig):
    studio = Studio(rig, camera_config(rig.folder / "recordings"))
    camera = Camera(studio)
    studio.until_state(READY, meanwhile=feed(studio, camera))
    camera.stop()
    camera = Camera(studio, "16UC1")
    rig.until(
        lambda: studio.status.state == WAITING and "(got 16UC1)" in studio.status.message,
        "the other encoding is not refused",
        meanwhile=feed(studio, camera),
    )


def test_a_driver_that_sends_only_while_subscribed_is_recorded_from_the_first_moment(rig):
    studio = Studio(rig, camera_config(rig.folder / "recordings"))
    studio.until_state(WAITING, meanwhile=studio.send)
    assert f"{TOPIC}: nobody publishes it" in studio.start("stack the cups").message

    camera = Camera(studio)
    studio.until_state(READY, meanwhile=feed(studio, camera))
    assert camera.sent  # it was asked for frames before any episode
    answer = studio.start("stack the cups", sent_before=True)
    assert answer.success, answer.message
    first = len(camera.sent)
    for _ in range(20):
        feed(studio, camera)()
        rig.spin(0.003)
    wanted = camera.sent[first:]
    assert len(wanted) == 20
    rig.until(lambda: studio.topic(TOPIC).messages >= len(wanted), "frames are missing")
    assert studio.trigger("stop_episode").success
    with open_bag(one_session(rig.folder / "recordings") / "episode_000000") as bag:
        stamps = [bag.header_stamp_ns(TOPIC, message.payload) for message in bag.messages([TOPIC])]
    assert stamps[-20:] == wanted


@pytest.mark.parametrize(
    ("transport", "plugin"),
    [
        ("compressed", "image_transport_plugins"),
        ("ffmpeg", "ffmpeg_image_transport"),
        ("foxglove", "foxglove_compressed_video_transport"),
    ],
)
def test_a_missing_compression_plugin_is_named_where_the_raw_images_are_there(rig, transport, plugin):
    studio = Studio(rig, camera_config(rig.folder / "recordings", transport=transport))
    camera = Camera(studio)
    said = f"{TOPIC}/{transport}: nobody publishes it, but {TOPIC} is there: install {plugin} where"
    rig.until(
        lambda: studio.status and said in studio.status.message, "not told", meanwhile=feed(studio, camera)
    )


# -- devices ---------------------------------------------------------------------------------------


@pytest.fixture
def realsense_msgs(vendor_site, monkeypatch):
    site = vendor_site("realsense2_camera_msgs")
    monkeypatch.syspath_prepend(str(site))
    return site


def answers(studio, serial, *, node=None):
    """The driver's device_info service."""
    from realsense2_camera_msgs.srv import DeviceInfo

    def answer(_request, response):
        response.device_name, response.serial_number = "Intel RealSense D435", serial
        response.firmware_version, response.usb_type_descriptor = "5.16.0.1", "3.2"
        return response

    return (node or studio.rig.node).create_service(DeviceInfo, "/camera/cam_front/device_info", answer)


def recorded_camera(studio, camera):
    """One short episode; the camera as the session's provenance record has it."""
    studio.until_state(READY, meanwhile=feed(studio, camera))
    assert studio.start("stack the cups").success
    for _ in range(5):
        feed(studio, camera)()
    rig = studio.rig
    rig.until(lambda: studio.topic(TOPIC).messages, "no frames", meanwhile=feed(studio, camera))
    assert studio.trigger("stop_episode").success
    session = json.loads((one_session(rig.folder / "recordings") / "session.json").read_text())
    return session["cameras"]["cam_front"]


def test_the_device_behind_a_camera_goes_into_the_provenance(rig, realsense_msgs):
    config = camera_config(rig.folder / "recordings", devices="realsense", serial="831612070001")
    studio = Studio(rig, config, site=realsense_msgs)
    answers(studio, "831612070001")
    assert recorded_camera(studio, Camera(studio)) == {
        "serial": "831612070001",
        "firmware": "5.16.0.1",
        "name": "Intel RealSense D435",
        "usb_type": "3.2",
        "serial_source": "device_info",
    }


def test_another_device_than_the_pinned_one_refuses_the_start_until_it_is_the_right_one(rig, realsense_msgs):
    config = camera_config(rig.folder / "recordings", devices="realsense", serial="831612070001")
    studio = Studio(rig, config, site=realsense_msgs)
    service, camera = answers(studio, "942222072222"), Camera(studio)
    said = (
        "camera cam_front: the device with serial number 942222072222 is connected, but"
        " cameras.cam_front.serial is 831612070001"
    )
    rig.until(
        lambda: studio.status and said in studio.status.message, "not told", meanwhile=feed(studio, camera)
    )
    answer = studio.start("stack the cups")
    assert not answer.success
    assert said in answer.message
    assert said in studio.process.log()
    rig.node.destroy_service(service)
    rig.until(
        lambda: "has not said yet which device it is" in studio.status.message,
        "the device that went is still believed",
        meanwhile=feed(studio, camera),
    )
    answers(studio, "831612070001")
    assert recorded_camera(studio, camera)["serial"] == "831612070001"


def test_a_device_that_says_nothing_is_in_the_end_taken_as_configured_and_that_is_said(rig, realsense_msgs):
    config = camera_config(rig.folder / "recordings", devices="realsense", serial="831612070001")
    studio = Studio(rig, config, site=realsense_msgs)
    answers(studio, "x", node=rig.deaf_node())
    camera = Camera(studio)
    rig.until(
        lambda: studio.status and "device_info has not said yet" in studio.status.message,
        "the start does not wait for the device",
        meanwhile=feed(studio, camera),
    )
    found = recorded_camera(studio, camera)
    assert "device_info does not answer" in studio.process.log()
    assert (found["serial"], found["serial_source"]) == ("831612070001", "configuration")
    assert (found["firmware"], found["name"]) == (None, None)


def test_without_the_vendors_messages_the_configured_serial_is_recorded_and_that_is_said(rig):
    config = camera_config(rig.folder / "recordings", devices="realsense", serial="831612070001")
    studio = Studio(rig, config)
    found = recorded_camera(studio, Camera(studio))
    assert "realsense2_camera_msgs is not installed here" in studio.process.log()
    assert (found["serial"], found["serial_source"]) == ("831612070001", "configuration")
