"""The headset's page as a node: what it prints, what it refuses, and pictures of raw cameras."""

import re
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import simplejpeg
from page_support import Socket, browser, in_loop
from ros_support import Rig

from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.web.certificate import FILE_NAME


def config_of(folder: Path, **quest: object) -> SessionConfig:
    base = SessionConfig()
    settings = {"port": 0, "certificate_dir": str(folder / "certificate"), **quest}
    return replace(
        base,
        quest=replace(base.quest, **settings),
        cameras={"cam": CameraSettings(transport="raw", width=64, height=48)},
    )


def test_it_says_where_to_go_and_keeps_the_code_out_of_the_logs(rig: Rig, tmp_path: Path) -> None:
    node = rig.start("quest_node", config_of(tmp_path))
    rig.until(lambda: "Pairing code" in node.log(), "it says nothing")
    first, second = re.search(r"Pairing code: (\d{3}) (\d{3})", node.log()).groups()
    assert re.search(r"https://localhost:\d+/", node.log())
    assert (tmp_path / "certificate" / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert rig.end(node) == 0
    logs = [path.read_text(errors="replace") for path in (rig.run.folder / "ros_log").rglob("*.log")]
    assert logs
    assert not any(first + second in text or f"{first} {second}" in text for text in logs)


def test_a_port_that_is_taken_ends_it_with_one_line(rig: Rig, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        node = rig.start("quest_node", config_of(tmp_path, port=taken.getsockname()[1]))
        node.may_end = True
        assert node.wait() == 1
    assert "cannot listen" in node.log()
    assert "quest.port" in node.log()
    assert "Traceback" not in node.log()


def test_a_certificate_that_is_not_there_ends_it_with_one_line(rig: Rig, tmp_path: Path) -> None:
    node = rig.start("quest_node", config_of(tmp_path, certificate=str(tmp_path / "none.pem")))
    node.may_end = True
    assert node.wait() == 1
    assert "the certificate cannot be used" in node.log()
    assert "Traceback" not in node.log()


def test_a_raw_camera_is_seen_in_the_headset_and_a_silent_session_is_told(rig: Rig, tmp_path: Path) -> None:
    from sensor_msgs.msg import Image

    node = rig.start("quest_node", config_of(tmp_path, panel_width=64))
    rig.until(lambda: "Pairing code" in node.log(), "it says nothing")
    url = re.search(r"https://localhost:\d+", node.log())[0]
    camera = rig.publisher(Image, "/cam/image_raw")
    rig.until(camera.get_subscription_count, "it does not look")
    picture = np.full((48, 64, 3), (10, 200, 30), np.uint8)
    for _ in range(5):
        camera.publish(Image(height=48, width=64, encoding="rgb8", step=192, data=picture.tobytes()))
        rig.spin(0.05)

    async def test() -> None:
        headers = {"Origin": url}
        async with browser() as session:
            async with session.ws_connect(f"{url}/panels", headers=headers) as panels:
                await panels.send_json({"type": "watch", "token": ""})
                message = await panels.receive_bytes()
                seen = simplejpeg.decode_jpeg(message[5:])
                assert np.abs(seen.astype(int) - picture).max() < 12
            async with session.ws_connect(f"{url}/operator", headers=headers) as page:
                state = await Socket(page).hear("state")
                assert (state["state"], state["text"]) == ("not_ready", "waiting for the session")

    in_loop(test)
