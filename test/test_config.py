"""The session YAML: round trip, ROS parameter file, and errors that name the nearest valid word."""

import dataclasses
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

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
from piper_collect.config.schema import CameraSettings, SessionConfig
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
    task=st.text(max_size=40),
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


def test_text_that_is_no_config_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"x.yaml:2: not valid YAML"):
        session_from_text("a: 1\n b: {", "x.yaml")
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
    ]
    assert [n.name for n in graph.nodes if n.ends_session] == ["operator_sim"]
    assert graph.nodes[2].parameters == {"camera": "cam_front"}
    bare = collection_graph(load_session("piper_ros_realsense"))
    assert [n.executable for n in bare.nodes] == ["recorder_node", "teleop_node", "session_node"]


def test_variables_that_the_user_has_set_stay_his(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTRTPS_DEFAULT_PROFILES_FILE", "/mine.xml")
    monkeypatch.delenv("FASTDDS_DEFAULT_PROFILES_FILE", raising=False)
    environment = collection_graph(load_session("default")).environment
    assert "FASTRTPS_DEFAULT_PROFILES_FILE" not in environment
    assert Path(environment["FASTDDS_DEFAULT_PROFILES_FILE"]).is_file()


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
