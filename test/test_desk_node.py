"""The desk's page as a node: it hears the session, and can neither command nor call anything."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk_cases import save_record, write_reference
from page_support import Socket, browser, in_loop
from ros_support import Rig

from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.nodes.qos import LATCHED_QOS

GREEN = np.full((48, 64, 3), (10, 200, 30), np.uint8)


def config_of(folder: Path) -> SessionConfig:
    base = SessionConfig()
    return replace(
        base,
        session=replace(base.session, root=str(folder)),
        desk=replace(base.desk, port=0, reference=str(folder / "cups")),
        cameras={"cam": CameraSettings(transport="raw", width=64, height=48)},
    )


async def spun(rig: Rig, holds: Callable[[], Any]) -> None:
    """Let ROS and the sockets of the test go on until something holds."""
    while not holds():
        rig.spin(0.01)
        await asyncio.sleep(0)


def test_it_shows_what_it_hears_and_has_nothing_to_command_with(rig: Rig, tmp_path: Path) -> None:
    from piper_collect.msg import RecorderStatus, SessionStatus, TopicStatus
    from sensor_msgs.msg import Image

    save_record(tmp_path / "cups_1", 0, size=9_000_000)
    write_reference(tmp_path / "cups", {"cam": GREEN})
    node = rig.start("desk_node", config_of(tmp_path))
    rig.until(lambda: "desk page: " in node.log(), "it says nothing")
    url = re.search(r"http://localhost:\d+", node.log())[0]

    recorder = rig.publisher(RecorderStatus, "/recorder/status", LATCHED_QOS)
    session = rig.publisher(SessionStatus, "/session/status", LATCHED_QOS)
    camera = rig.publisher(Image, "/cam/image_raw")
    topic = TopicStatus(name="/cam/image_raw", required=True, rate_hz=12.0, age_s=0.1)
    heard = RecorderStatus(session="cups_1", bytes_free=11_000_000_000, topics=[topic])
    picture = Image(height=48, width=64, encoding="rgb8", step=192, data=GREEN.tobytes())

    def speak() -> None:
        recorder.publish(heard)
        session.publish(SessionStatus(state=SessionStatus.STATE_READY, episodes_saved=1, task="stack cups"))
        camera.publish(picture)

    speaking = rig.every(0.1, speak)
    rig.until(lambda: recorder.get_subscription_count() and session.get_subscription_count(), "it is deaf")

    async def test() -> None:
        headers = {"Origin": url}
        async with browser() as http:
            async with http.ws_connect(f"{url}/desk/state", headers=headers) as raw:
                page = Socket(raw)
                await raw.send_json({"type": "watch", "token": ""})
                states: list[Any] = []
                kept: dict[str, Any] = {}

                async def read() -> None:
                    while True:
                        message = await page.hear("state", "episodes", "reference")
                        kept[message["type"]] = message
                        if message["type"] == "state":
                            states.append(message)

                reader = asyncio.create_task(read())
                await spun(
                    rig, lambda: states and states[-1]["state"] == "ready" and states[-1]["minutes_left"]
                )
                await spun(rig, lambda: kept["episodes"]["rows"] and "reference" in kept)
                assert camera.get_subscription_count() == 0  # nobody looks at the cameras yet
                async with http.ws_connect(f"{url}/desk/pictures", headers=headers) as pictures:
                    await pictures.send_json({"type": "watch", "token": ""})
                    coming = asyncio.create_task(pictures.receive_bytes())
                    await spun(rig, coming.done)
                    assert coming.result()[5:7] == b"\xff\xd8"
                    await spun(rig, lambda: states[-1]["misfits"])
                await spun(rig, lambda: camera.get_subscription_count() == 0)
                reader.cancel()
                last = states[-1]
            assert (last["task"], last["session"], last["saved"]) == ("stack cups", "cups_1", 1)
            assert last["topics"][0]["reason"] == "12.0 Hz where 30 are expected"
            assert last["minutes_left"] == pytest.approx(10e9 / (9e6 / 4.5) / 60, rel=0.01)
            assert [row["number"] for row in kept["episodes"]["rows"]] == [0]
            assert list(kept["reference"]["pictures"]) == ["cam"]
            assert last["misfits"]["cam"]["right_px"] is None  # a green wall has not moved
            assert last["misfits"]["cam"]["difference"] < 12

    in_loop(test)
    speaking.cancel()
    name, space = "desk", "/"
    published = {topic for topic, _ in rig.node.get_publisher_names_and_types_by_node(name, space)}
    assert published <= {"/rosout", "/parameter_events"}
    assert rig.node.get_client_names_and_types_by_node(name, space) == []
    served = [service for service, _ in rig.node.get_service_names_and_types_by_node(name, space)]
    assert served
    assert all("parameter" in service or "type_description" in service for service in served)
    assert rig.end(node) == 0
    assert "Traceback" not in node.log()
