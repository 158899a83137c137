"""The session YAML: round trip, ROS parameter file, and errors that name the nearest valid word."""

import dataclasses
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.config.bridge import BridgeSettings, vendor_names
from piper_collect.config.graph import collection_graph
from piper_collect.config.load import (
    dump_session,
    load_session,
    override_session,
    session_from_parameters,
    session_from_text,
)
from piper_collect.config.names import (
    arm_topics,
    camera_info_topic,
    image_topic,
    recorded_topics,
    resolve_topic,
)
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, DeviceSettings, SessionConfig
from piper_collect.config.share import share_dir
from piper_collect.errors import ConfigError

CONFIGS = sorted((Path(__file__).parents[1] / "config").glob("*.yaml"))


def flat(mapping: dict, prefix: str = "") -> dict:
    out = {}
    for key, value in mapping.items():
        out.update(flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return out


def text(inner: str) -> str:
    return "/**:\n  ros__parameters:\n" + "".join(f"    {line}\n" for line in inner.splitlines())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_config_that_ships_loads_and_survives_the_round_trip(path: Path) -> None:
    config = load_session(path)
    assert session_from_text(dump_session(config), "again") == config


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_nodes_read_the_same_from_flat_parameters(path: Path) -> None:
    inner = yaml.safe_load(dump_session(load_session(path)))["/**"]["ros__parameters"]
    assert session_from_parameters(flat(inner)) == load_session(path)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_a_dumped_config_holds_only_what_ros_parameter_files_can(path: Path) -> None:
    inner = yaml.safe_load(dump_session(load_session(path)))["/**"]["ros__parameters"]
    for name, value in flat(inner).items():
        assert value is not None, name
        if isinstance(value, list):
            assert value, name
            assert len({type(v) for v in value}) == 1, name
            assert not isinstance(value[0], list | dict), name


def test_an_empty_map_or_list_is_not_the_default_when_read_back() -> None:
    config = SessionConfig(cameras={})
    config = dataclasses.replace(config, recorder=dataclasses.replace(config.recorder, extra_topics=()))
    again = session_from_text(dump_session(config), "again")
    assert again == config
    assert again.cameras == {}
    assert again.recorder.extra_topics == ()


@pytest.mark.parametrize(
    "task", ["\x85", "a\u2028b\u2029", "\ufeffx", "line\nbreak\t", "抓取 🙂", "'\"\\", " "]
)
def test_odd_text_survives_the_round_trip(task: str) -> None:
    config = override_session(SessionConfig(), task=task)
    assert session_from_text(dump_session(config), "again").session.task == task


@settings(deadline=None, max_examples=50)
@given(
    task=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=40),
    fps=st.floats(0.1, 1000.0),
    kp=st.lists(st.floats(0, 500), max_size=6),
    names=st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), max_size=3, unique=True),
)
def test_any_config_survives_the_round_trip(task: str, fps: float, kp: list, names: list) -> None:
    names = [n for n in names if n != "names"]
    base = SessionConfig(cameras={n: CameraSettings(serial=n) for n in names})
    config = dataclasses.replace(
        base,
        session=dataclasses.replace(base.session, task=task, fps=fps),
        control=dataclasses.replace(
            base.control, impedance=dataclasses.replace(base.control.impedance, kp=tuple(kp))
        ),
    )
    assert session_from_text(dump_session(config), "again") == config


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ("sesion:\n  task: x", ["x.yaml.sesion", "did you mean 'session'?"]),
        ("session:\n  fsp: 30.0", ["x.yaml.session.fsp", "did you mean 'fps'?"]),
        ("session:\n  fps: thirty", ["session.fps", "a number", "'thirty'"]),
        ("session:\n  fps: true", ["session.fps", "a number"]),
        ("recorder:\n  max_lost: 1.5", ["recorder.max_lost", "a whole number"]),
        ("arm:\n  preset: piper_rso", ["arm.preset", "did you mean 'piper_ros'?"]),
        ("teleop:\n  workspace_min_m: [0.0, 0.0]", ["workspace_min_m", "3 values", "got 2"]),
        ("cameras:\n  cam: {}", ["cameras.names", "list of the members' names"]),
        ("cameras:\n  names: [cam]\n  cma: {}", ["cameras.cma", "did you mean 'cam'?"]),
        ("cameras:\n  names: [a, a]", ["given twice"]),
        ("sources:\n  names: [a]\n  a: {topic: /x}", ["sources.a.field", "missing"]),
        ("session:\n  task: a\nsession:\n  fps: 15.0", ["x.yaml:5", "'session' is given twice"]),
        ("session:\n  fps: 0.0", ["session", "fps must be above 0"]),
        ("session:\n  control_rate_hz: -5.0", ["control_rate_hz must be above 0"]),
        ("session:\n  namespace: rig one", ["namespace is no ROS name", "'rig one'"]),
        ("session:\n  root: ''", ["root is empty"]),
        ("recorder:\n  storage: mcpa", ["recorder.storage", "did you mean 'mcap'?"]),
        ("cameras:\n  names: [cam]\n  cam: {width: 0}", ["cameras.cam", "at least 2 px"]),
        ("cameras:\n  names: [kamera oben]", ["not a name", "'kamera oben'"]),
        (
            "cameras:\n  names: [cam]\n  cam: {latency_ms: 33000.0}",
            ["cameras.cam", "-10000 to 10000", "33000"],
        ),
        (
            "sources:\n  names: [a]\n  a: {topic: x, field: y, latency_ms: -10001.0}",
            ["sources.a", "latency_ms"],
        ),
        (
            "sources:\n  names: [a]\n  a: {topic: x, field: y, max_age_ms: 0.0}",
            ["max_age_ms must be above 0"],
        ),
        ("recorder:\n  fresh_s: 0.0", ["fresh_s must be above 0"]),
        ("recorder:\n  drain_s: -1.0", ["drain_s must not be below 0"]),
        ("recorder:\n  max_lost: -1", ["max_lost must not be below 0"]),
        ("recorder:\n  extra_topics: [arm status]", ["extra_topics is no topic name", "'arm status'"]),
        ("sources:\n  names: [a]\n  a: {topic: x/, field: y}", ["sources.a", "topic is no topic name"]),
        ("cameras:\n  names: [c]\n  c: {info_topic: //x}", ["cameras.c", "info_topic is no topic name"]),
        ("can:\n  speed_percent: 0", ["speed_percent must be from 1 to 100 (got 0)"]),
        ("can:\n  gripper_effort_n_m: 5.1", ["gripper_effort_n_m must be from 0 to 5"]),
        ("can:\n  max_step_rad: 0.0", ["max_step_rad must be above 0"]),
        ("can:\n  watchdog_s: -1.0", ["watchdog_s must be above 0"]),
        ("can:\n  channel: ''", ["channel is empty"]),
        ("can:\n  interface: socketcam", ["can.interface", "did you mean 'socketcan'?"]),
        ("devices:\n  arm: cann", ["devices.arm", "did you mean 'can'?"]),
        ("bridge:\n  vendor: pipr_ros", ["bridge.vendor", "did you mean 'piper_ros'?"]),
        ("bridge:\n  speed_percent: 0", ["bridge", "speed_percent must be from 1 to 100 (got 0)"]),
        ("bridge:\n  gripper_effort_n_m: 5.0", ["gripper_effort_n_m must be from 0.5 to 3"]),
        ("bridge:\n  max_step_rad: 0.0", ["max_step_rad must be above 0"]),
        ("bridge:\n  joint_states: 'a b'", ["joint_states is no topic name"]),
        ("bridge: {vendor: agx_arm_ros, flange_pose: vendor_unstamped}", ["no pose without a header"]),
        (
            "devices: {arm: bridge}\narm: {preset: piper_ros}",
            ["arm.preset: piper_collect", "past the bridge"],
        ),
        ("sim:\n  outcomes: [save]", ["episode_s has 3 values and outcomes 1"]),
    ],
)
def test_a_wrong_word_is_one_line_with_the_place_and_the_right_one(inner: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        session_from_text(text(inner), "x.yaml")
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    "setting", ["session: {root: %s}", "session: {dataset: %s}", "quest: {certificate_dir: %s}"]
)
def test_a_path_that_no_system_can_have_is_refused(setting: str) -> None:
    text = "/**: {ros__parameters: {" + setting % '"a\\0b"' + "}}"
    with pytest.raises(ConfigError, match="text without NUL"):
        session_from_text(text, "test")


def test_text_that_is_no_config_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"x.yaml:2: not valid YAML"):
        session_from_text("a: 1\n b: {", "x.yaml")
    for text in ("a: 1\n? [b]\n: 2", "a: 1\n? {b: c}\n: 2"):
        with pytest.raises(ConfigError, match=r"x.yaml:2: not valid YAML: a key is no text"):
            session_from_text(text, "x.yaml")
    with pytest.raises(ConfigError, match="one top-level key"):
        session_from_text("session: {}", "x.yaml")
    with pytest.raises(ConfigError, match="did you mean 'default'"):
        load_session("defualt")


def test_topics_resolve_in_the_namespace() -> None:
    assert resolve_topic("arm/status") == "/arm/status"
    assert resolve_topic("arm/status", "left") == "/left/arm/status"
    assert resolve_topic("/arm/status", "/left/") == "/arm/status"
    with pytest.raises(ConfigError):
        resolve_topic("")


def test_camera_topics_follow_the_transport() -> None:
    camera = CameraSettings(topic="/camera/cam_front/color/image_raw", transport="raw")
    assert image_topic("cam_front", camera) == "/camera/cam_front/color/image_raw"
    assert camera_info_topic("cam_front", camera) == "/camera/cam_front/color/camera_info"
    assert image_topic("cam_back", CameraSettings()) == "cam_back/image_raw/compressed"
    assert camera_info_topic("cam_back", CameraSettings()) == "cam_back/camera_info"


def test_what_is_recorded_and_what_an_episode_needs() -> None:
    wanted = recorded_topics(load_session("default"))
    assert wanted == {
        "/arm/joint_states": True,
        "/arm/flange_pose": True,
        "/teleop/target": True,
        "/cam_front/image_raw/compressed": True,
        "/cam_front/camera_info": False,
        "/cam_wrist/image_raw/compressed": True,
        "/cam_wrist/camera_info": False,
        "/arm/status": False,
        "/quest/input": False,
    }
    assert arm_topics("piper_ros").joint_command == "joint_ctrl_single"


def test_the_graph_names_each_process_and_who_ends_the_session() -> None:
    graph = collection_graph(load_session("default"))
    assert [(n.executable, n.name) for n in graph.nodes] == [
        ("recorder_node", "recorder"),
        ("arm_sim_node", "arm_sim"),
        ("camera_sim_node", "camera_sim_cam_front"),
        ("camera_sim_node", "camera_sim_cam_wrist"),
        ("teleop_node", "teleop"),
        ("session_node", "session"),
        ("operator_sim_node", "operator_sim"),
        ("desk_node", "desk"),
    ]
    assert [n.name for n in graph.nodes if n.ends_session] == ["operator_sim"]
    assert [n.name for n in graph.nodes if not n.needed] == ["desk"]
    assert graph.nodes[2].parameters == {"camera": "cam_front"}
    real = dataclasses.replace(load_session("default"), devices=DeviceSettings(arm="can"))
    assert ("arm_can_node", "arm_can") in [(n.executable, n.name) for n in collection_graph(real).nodes]
    bare = collection_graph(load_session("piper_ros_realsense"))
    assert [n.executable for n in bare.nodes] == ["recorder_node", "teleop_node", "session_node", "desk_node"]
    bridge = collection_graph(load_session("piper_ros_bridge"))
    assert [n.executable for n in bridge.nodes][:2] == ["recorder_node", "arm_bridge_node"]


def test_the_bridge_knows_its_vendors_names_and_takes_others() -> None:
    names = vendor_names(BridgeSettings())
    assert (names.joint_states, names.joint_command) == ("joint_states_single", "joint_ctrl_single")
    assert (names.enable_service, names.status_type) == ("enable_srv", "piper_msgs/PiperStatusMsg")
    other = vendor_names(BridgeSettings(joint_states="/left/joints", vendor="agx_arm_ros"))
    assert (other.joint_states, other.joint_command) == ("/left/joints", "control/joint_states")
    bare = BridgeSettings(flange_pose="vendor_unstamped", end_pose="pose")
    assert (vendor_names(bare).end_pose, vendor_names(bare).end_pose_unstamped) == (
        "end_pose_stamped",
        "pose",
    )


@pytest.mark.parametrize(
    ("vendor", "degrees", "corrected"),
    [
        ("piper_ros", "by_vendor", True),
        ("piper_ros", "as_sent", False),
        ("agx_arm_ros", "by_vendor", False),
        ("agx_arm_ros", "corrected", True),
    ],
)
def test_degrees_are_put_right_where_the_vendor_has_them_wrong(vendor, degrees, corrected) -> None:
    assert BridgeSettings(vendor=vendor, degrees=degrees).corrects_degrees is corrected


def test_a_session_with_a_headset_serves_its_page_and_ends_when_told() -> None:
    graph = collection_graph(load_session("quest"))
    expected = ["teleop_node", "session_node", "quest_node", "desk_node"]
    assert [n.executable for n in graph.nodes][-4:] == expected
    assert not any(n.ends_session for n in graph.nodes)
    assert load_session("quest").quest.host == "127.0.0.1"  # nobody else's machine reaches it unasked


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("port: 70000", "port must be from 0"),
        ("host: ''", "host is empty"),
        ("key: key.pem", "key is given without"),
        ("panel_width: 10", "panel_width"),
        ("panel_quality: 0", "panel_quality"),
        ("panel_rate_hz: -1.0", "panel_rate_hz"),
        ("pairing_s: 0.0", "pairing_s"),
        ("names: ['a b']", "no host name"),
        ("names: ['https://robot']", "no host name"),
        ("colour: red", "unknown setting"),
    ],
)
def test_settings_of_the_page_that_cannot_work_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        session_from_text(f"/**: {{ros__parameters: {{quest: {{{setting}}}}}}}", "test")


def test_the_desks_page_is_for_this_machine_unless_told_otherwise_and_can_be_left_out() -> None:
    config = load_session("default")
    assert (config.desk.serve, config.desk.host) == (True, "127.0.0.1")
    without = session_from_text("/**: {ros__parameters: {desk: {serve: false}}}", "test")
    assert "desk_node" not in [n.executable for n in collection_graph(without).nodes]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("port: -1", "port must be from 0"),
        ("host: ' '", "host is empty"),
        ("picture_rate_hz: 0.0", "picture_rate_hz"),
        ("picture_width: 10", "picture_width"),
        ("picture_quality: 101", "picture_quality"),
        ("serve: maybe", "wrong type"),
    ],
)
def test_settings_of_the_desks_page_that_cannot_work_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        session_from_text(f"/**: {{ros__parameters: {{desk: {{{setting}}}}}}}", "test")


def test_variables_that_the_user_has_set_stay_his(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTRTPS_DEFAULT_PROFILES_FILE", "/mine.xml")
    monkeypatch.delenv("FASTDDS_DEFAULT_PROFILES_FILE", raising=False)
    environment = collection_graph(load_session("default")).environment
    assert "FASTRTPS_DEFAULT_PROFILES_FILE" not in environment
    assert Path(environment["FASTDDS_DEFAULT_PROFILES_FILE"]).is_file()


@pytest.mark.parametrize(
    ("devices", "own", "reach"),
    [
        ({}, {}, "LOCALHOST"),
        ({"operator": "quest"}, {}, "LOCALHOST"),
        ({"cameras": "none"}, {}, None),
        ({"arm": "bridge"}, {}, None),
        ({"operator": "none"}, {}, None),
        ({}, {"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, None),
        ({}, {"ROS_LOCALHOST_ONLY": "0"}, None),
        ({}, {"ROS_STATIC_PEERS": "10.0.0.2"}, None),
    ],
)
def test_a_simulated_session_is_found_by_this_machine_only(
    monkeypatch: pytest.MonkeyPatch, devices: dict, own: dict, reach: str | None
) -> None:
    for name in ("ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_LOCALHOST_ONLY", "ROS_STATIC_PEERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    config = SessionConfig(devices=DeviceSettings(**devices))
    assert collection_graph(config).environment.get("ROS_AUTOMATIC_DISCOVERY_RANGE") == reach


def test_task_and_root_are_replaced_only_when_given() -> None:
    config = load_session("default")
    assert override_session(config) == config
    changed = override_session(config, task="stack", root="/data")
    assert (changed.session.task, changed.session.root) == ("stack", "/data")


def test_the_piper_profile_says_what_the_format_says() -> None:
    profile = load_profile("piper")
    assert [c.key for c in profile.columns] == [
        "observation.arm_joint",
        "observation.arm_eef",
        "observation.gripper",
        "action.arm_eef",
        "action.gripper",
    ]
    assert [len(c.names) for c in profile.columns] == [6, 7, 1, 7, 1]
    assert profile.columns[1].names[3:] == ("qw", "qx", "qy", "qz")
    assert (profile.video.time_base_hz, profile.video.crf, profile.video.preset) == (1000, 23, "veryfast")
    assert profile.action_source == "target_eef"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dialect": "lerobot-v2.00"}, ["dialect", "lerobot-v2.0"]),
        ({"colums": []}, ["did you mean 'columns'?"]),
        ({"columns": [{"key": "a", "source": "s", "names": [], "unit": ""}]}, ["no elements"]),
        (
            {
                "columns": [
                    {
                        "key": "a", "source": "s", "names": ["x"], "unit": "",
                        "modality": [{"group": "state", "name": "x", "start": 0, "end": 2}],
                    }
                ]
            },
            ["slices 0:2", "1 elements"],
        ),
    ],
)  # fmt: skip
def test_a_wrong_profile_is_refused_by_name(tmp_path: Path, change: dict, words: list[str]) -> None:
    content = yaml.safe_load((share_dir() / "config/profiles/piper.yaml").read_text()) | change
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as caught:
        load_profile(path)
    for word in words:
        assert word in str(caught.value)


def test_numbers_that_are_not_finite_are_no_settings() -> None:
    with pytest.raises(ConfigError, match=r"session\.fps"):
        session_from_text(text("session:\n  fps: .nan"), "x.yaml")
    assert math.isfinite(load_session("default").session.fps)


def test_a_file_that_is_not_utf8_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("/**: {ros__parameters: {session: {task: Löffel}}}".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"latin\.yaml: is not UTF-8"):
        load_session(path)
    with pytest.raises(ConfigError, match=r"latin\.yaml: is not UTF-8"):
        load_profile(path)
