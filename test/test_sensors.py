"""Sensors by configuration: wrenches, IMUs and arrays of numbers from a bag into columns of every format."""

import json
import re
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from export_cases import bag, every, frame_messages, run
from sample_bags import MS, START, arm_messages, header, make, store

from piper_collect.bag.definitions import Definitions
from piper_collect.bag.fields import FieldReader
from piper_collect.bag.source_check import SourceCheck
from piper_collect.cli.main import main
from piper_collect.config.column_spec import ColumnSpec
from piper_collect.config.load import load_session, session_from_text
from piper_collect.config.names import recorded_topics
from piper_collect.config.parse import parse
from piper_collect.config.profile import Profile, load_profile, with_dialect
from piper_collect.config.schema import ArmSettings, CameraSettings, SessionConfig, SourceSettings
from piper_collect.core.sampling import prepare, select, take
from piper_collect.core.se3 import quat_from_rotvec
from piper_collect.core.types import AlignPolicy, Stream
from piper_collect.dataset.edit import delete_episodes
from piper_collect.dataset.parquet import column_values
from piper_collect.dataset.readers import open_any
from piper_collect.errors import BagError, ConfigError
from piper_collect.pipelines.validators import validator_of

pytestmark = pytest.mark.usefixtures("no_sync")

PAGE = Path(__file__).parents[1] / "docs/sensors.md"
SHAPE = (2, 4, 3)


def example() -> tuple[SessionConfig, tuple[ColumnSpec, ...]]:
    """The configuration and the columns that the page shows."""
    session, profile = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    specs = [parse(ColumnSpec, column, "columns") for column in yaml.safe_load(profile)["columns"]]
    config = session_from_text(session, str(PAGE))
    return replace(config, cameras={"cam": CameraSettings()}), tuple(specs)


@cache
def example_profile() -> Profile:
    """The profile that the page shows, from a file."""
    _, text = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.yaml"
        path.write_text(text, encoding="utf-8")
        return load_profile(path)


def with_sensors(dialect: str) -> Profile:
    return with_dialect(example_profile(), dialect)


def vector(x, y, z):
    return make("geometry_msgs/msg/Vector3", float(x), float(y), float(z))


def wrench(stamp_ns, force, torque):
    inner = make("geometry_msgs/msg/Wrench", vector(*force), vector(*torque))
    return make("geometry_msgs/msg/WrenchStamped", header(stamp_ns, "wrist"), inner)


def imu(stamp_ns, xyzw, gyro=(0.0, 0.1, 0.2), accel=(0.0, 0.0, 9.81), unknown=()):
    covariances = [np.zeros(9) for _ in range(3)]
    for field in unknown:
        covariances[field][0] = -1.0
    turned = make("geometry_msgs/msg/Quaternion", *map(float, xyzw))
    pairs = zip((turned, vector(*gyro), vector(*accel)), covariances, strict=True)
    return make("sensor_msgs/msg/Imu", header(stamp_ns, "imu"), *(part for pair in pairs for part in pair))


def array(values, shape=(), *, offset=0, strides=None):
    dense = [int(np.prod(shape[k:])) for k in range(len(shape))]
    dims = [
        make("std_msgs/msg/MultiArrayDimension", f"d{k}", n, (strides or dense)[k])
        for k, n in enumerate(shape)
    ]
    layout = make("std_msgs/msg/MultiArrayLayout", dims, offset)
    return make("std_msgs/msg/Float32MultiArray", layout, np.array(values, np.float32))


def tactile(k):
    return np.arange(24, dtype=np.float32) / 8 + k


def sensor_messages(start, until_ms):
    """100 Hz; number k in what is measured tells the tick. The array is received 1 ms after its tick."""
    for k in range(until_ms // 10 + 1):
        t = start + 10 * k * MS
        yield "/wrist/wrench", t + MS, wrench(t, (k, 0.5, -1), (0.01 * k, 0, 0.25))
        half = 0.005 * k
        yield "/wrist/imu", t + MS, imu(t, (0, 0, np.sin(half), np.cos(half)), gyro=(k, 0, 0))
        yield "/fingers/tactile", t + MS, array(tactile(k), SHAPE)


@pytest.fixture(scope="module")
def bags(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder, config = tmp_path_factory.mktemp("bags"), example()[0]
    made = []
    for number in range(2):
        start, until_ms = START + number * 10**10, 220  # 7 rows
        messages = [*arm_messages(until_ms // 5 + 1, start=start), *sensor_messages(start, until_ms)]
        messages += frame_messages("cam", every(100 / 3, 0, until_ms), start=start)
        made.append(bag(folder / f"b{number}", messages, config, end_ms=until_ms, start=start))
    return made


@pytest.fixture(scope="module")
def v3(bags: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("v3") / "ds"
    assert run(bags, root, with_sensors("lerobot-v3.0")).exit_code == 0
    return root


def errors(root: Path) -> list[str]:
    return [str(f) for f in validator_of(root)(root).report.findings if f.level == "error"]


def check_values(root: Path) -> None:
    """Row k lies at T0 + k/30 s; T0 is the first tick at which an array was received: 5 ms."""
    reader = open_any(root)
    rows = reader.rows(0)
    times = 5 + 100 * np.arange(len(rows)) / 3
    wrenches = column_values(rows, "observation.wrench")
    np.testing.assert_allclose(wrenches[:, 0], times / 10, rtol=1e-6)  # between two samples
    np.testing.assert_allclose(wrenches[:, 1:3], [[0.5, -1.0]] * len(rows))
    held = np.floor(times / 10)
    half = 0.005 * held
    turned = np.stack((np.cos(half), 0 * half, 0 * half, np.sin(half)), axis=1)
    np.testing.assert_allclose(column_values(rows, "observation.imu_turn"), turned, atol=1e-6)
    np.testing.assert_allclose(column_values(rows, "observation.imu_gyro")[:, 0], held)
    np.testing.assert_allclose(column_values(rows, "observation.imu_accel")[:, 2], 9.81, rtol=1e-6)
    received = np.floor((times - 1) / 10)
    pads = column_values(rows, "observation.tactile")
    np.testing.assert_array_equal(pads, np.stack([tactile(k) for k in received]).astype(np.float32))
    since = column_values(rows, "source_timestamp.tactile")[:, 0]
    np.testing.assert_allclose(since, (received * 10 + 1 - 5) / 1e3, atol=1e-9)
    clocks = reader.lines[0].source["recording"]["clocks"]
    assert clocks == {"/fingers/tactile": "receive time: the messages have no header"}


def test_the_recorder_records_what_the_page_shows() -> None:
    config, _ = example()
    topics = recorded_topics(config)
    sensors = {"/wrist/wrench": True, "/wrist/imu": True, "/fingers/tactile": True}
    assert sensors.items() <= topics.items()
    check = SourceCheck(config, Definitions())
    for topic, message in (
        ("/wrist/wrench", wrench(START, (1, 2, 3), (4, 5, 6))),
        ("/wrist/imu", imu(START, (0, 0, 0, 1))),
        ("/fingers/tactile", array(tactile(0), SHAPE)),
    ):
        kind = message.__msgtype__
        check.check_type(topic, kind)
        check.check_message(topic, kind, bytes(store().serialize_cdr(message, kind)))
    with pytest.raises(ConfigError, match="has no such field"):
        check.check_type("/wrist/wrench", "sensor_msgs/msg/Imu")


def test_columns_of_v3_are_arrays_with_statistics_of_each_number(v3: Path) -> None:
    check_values(v3)
    assert errors(v3) == []
    reader = open_any(v3)
    feature = reader.info["features"]["observation.tactile"]
    assert (feature["shape"], feature["names"]) == ([2, 4, 3], ["finger", "row", "column"])
    cells = np.array(reader.rows(1)["observation.tactile"].to_pylist())
    assert cells.shape == (len(cells), *SHAPE)
    everything = np.concatenate([np.array(reader.rows(i)["observation.tactile"].to_pylist()) for i in (0, 1)])
    told = reader.stats["observation.tactile"]
    np.testing.assert_allclose(told["mean"], everything.mean(axis=0))
    np.testing.assert_allclose(told["q50"], np.quantile(everything, 0.5, axis=0))
    assert np.array(told["max"]).shape == SHAPE


@pytest.mark.parametrize("dialect", ["lerobot-v2.0", "lerobot-v2.1", "hdf5-cases"])
def test_other_formats_hold_the_same_numbers(
    bags: list[Path], v3: Path, tmp_path: Path, dialect: str
) -> None:
    summary = run(bags, tmp_path / "ds", with_sensors(dialect))
    assert summary.exit_code == 0
    said = [n for n in summary.notes if "observation.tactile" in n]
    assert said == [
        "observation.tactile: its arrays of 2 x 4 x 3 are stored as lists, row by row: "
        f"{dialect} has no arrays"
    ]
    check_values(tmp_path / "ds")
    assert errors(tmp_path / "ds") == []
    one, other = open_any(v3), open_any(tmp_path / "ds")
    for key in (c.key for c in example()[1]):
        for index in (0, 1):
            a, b = (column_values(r.rows(index), key) for r in (one, other))
            np.testing.assert_array_equal(a, b)


def test_arrays_become_lists_where_they_are_converted(
    v3: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for dialect in ("lerobot-v2.1", "hdf5-cases"):
        assert main(["convert", str(v3), "--to", dialect, "-o", str(tmp_path / dialect)]) == 0
        assert "observation.tactile: an array of 2 x 4 x 3 is a list now" in capsys.readouterr().out
        check_values(tmp_path / dialect)
        assert errors(tmp_path / dialect) == []


def test_an_episode_less_is_the_export_of_the_others(bags: list[Path], v3: Path, tmp_path: Path) -> None:
    run(bags, tmp_path / "all", with_sensors("lerobot-v3.0"))
    run(bags[1:], tmp_path / "one", with_sensors("lerobot-v3.0"))
    delete_episodes(tmp_path / "all", [0])
    a, b = ((tmp_path / n / "meta/stats.json").read_bytes() for n in ("all", "one"))
    assert a == b
    assert errors(tmp_path / "all") == []


def test_damage_to_arrays_is_found(v3: Path, tmp_path: Path, bags: list[Path]) -> None:
    shutil.copytree(v3, tmp_path / "ds")
    info, stats = (tmp_path / "ds/meta" / n for n in ("info.json", "stats.json"))
    described, told = json.loads(info.read_text()), json.loads(stats.read_text())
    described["features"]["observation.tactile"]["shape"] = [4, 2, 3]
    info.write_text(json.dumps(described))
    assert any("no arrays of [4, 2, 3]" in e for e in errors(tmp_path / "ds"))
    shutil.copy(v3 / "meta/info.json", info)
    told["observation.tactile"]["mean"][1][3][2] += 1.0
    stats.write_text(json.dumps(told))
    assert [e for e in errors(tmp_path / "ds") if "mean of observation.tactile[23]" in e]


# -- what a field can be ------------------------------------------------------------------------


def read(field: str, *messages: object, unit: str = "none") -> FieldReader:
    reader = FieldReader("s", "/t", SourceSettings(topic="t", field=field, unit=unit), ArmSettings())
    for message in messages:
        reader.add(message)
    return reader


def test_messages_of_numbers_come_field_by_field_and_quaternions_as_wxyz() -> None:
    one = wrench(START, (1, 2, 3), (4, 5, 6))
    assert read("wrench", one).values().tolist() == [[1, 2, 3, 4, 5, 6]]
    assert read("wrench.torque", one).values().tolist() == [[4, 5, 6]]
    assert read("wrench.force.z", one).values().tolist() == [[3]]
    assert read("orientation", imu(START, (0.1, 0.2, 0.3, 0.9))).values().tolist() == [[0.9, 0.1, 0.2, 0.3]]
    degrees = read("angular_velocity", imu(START, (0, 0, 0, 1), gyro=(180, 0, -90)), unit="deg").values()
    np.testing.assert_allclose(degrees, [[np.pi, 0, -np.pi / 2]])
    with pytest.raises(BagError, match="not made of numbers"):
        read("header", one)


@pytest.mark.parametrize(
    ("number", "field"), [(0, "orientation"), (1, "angular_velocity"), (2, "linear_acceleration")]
)
def test_what_an_imu_does_not_measure_is_refused(number: int, field: str) -> None:
    message = imu(START, (0, 0, 0, 1), unknown=[number])
    with pytest.raises(BagError, match=f"does not measure {field}"):
        read(field, message)
    others = {"orientation", "angular_velocity", "linear_acceleration"} - {field}
    assert all(len(read(other, message).values()) == 1 for other in others)


def test_arrays_are_taken_from_their_offset_on_and_tell_their_shape() -> None:
    plain = read("data", array([1, 2, 3]), array([4, 5, 6]))
    assert (plain.values().tolist(), plain.shape) == ([[1, 2, 3], [4, 5, 6]], ())
    shaped = read("data", array([9, 1, 2, 3, 4], (2, 2), offset=1, strides=[0, 0]))
    assert (shaped.values().tolist(), shaped.shape) == ([[1, 2, 3, 4]], (2, 2))


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ((array([1, 2, 3], (2, 2)),), "3 numbers, and a layout of 2 x 2"),
        ((array([1, 2, 3, 4], (2, 2), strides=[8, 4]),), "leaves gaps"),
        ((array(range(6), (2, 3)), array(range(6), (3, 2))), "changes its shape"),
        ((array([1, 2]), array([1])), "changes its length"),
    ],
)
def test_arrays_that_are_not_what_they_say_are_refused(messages: tuple[object, ...], said: str) -> None:
    with pytest.raises(BagError, match=said):
        read("data", *messages)


def test_columns_that_cannot_be_filled_are_refused(bags: list[Path], tmp_path: Path) -> None:
    made_of = with_sensors("lerobot-v3.0")

    def reason(**changes: object) -> str:
        columns = [replace(c, **changes) if c.key == "observation.tactile" else c for c in made_of.columns]
        return run(bags[:1], tmp_path / "ds", replace(made_of, columns=tuple(columns))).bags[0].reason

    assert "arrays of [4, 2, 3], got [2, 4, 3]" in reason(shape=(4, 2, 3)).replace("expected ", "")
    assert "24" in reason(shape=(), names=("a", "b"))
    for changes, said in (
        ({"shape": (2,)}, "2 to 5 extents"),
        ({"shape": (2, 0)}, "2 to 5 extents"),
        ({"shape": (2, 3), "names": ("a",)}, "2 axes, and names has 1"),
        ({"shape": (2, 2), "names": ("a", "b"), "rotation": "quat_wxyz"}, "stored as they are"),
        ({"names": ("a", "b"), "rotation": "quat_wxyz"}, "neither 4 names"),
    ):
        with pytest.raises(ValueError, match=said):
            _with_column(made_of, **{"source": "tactile", "names": ("a",), **changes})
    with pytest.raises(ConfigError, match="put together from a column"):
        _with_column(made_of, concat=("observation.tactile",))


def _with_column(made_of: Profile, **changes: object) -> Profile:
    return replace(made_of, columns=(*made_of.columns, ColumnSpec(key="x", **changes)))


def test_a_rotation_alone_is_interpolated_on_the_shorter_way() -> None:
    first, second = quat_from_rotvec(np.array([[0, 0, 0.0], [0, 0, 1.0]]))
    policy = AlignPolicy(sampling="linear", rotation="quat_wxyz", max_age_ns=10**9)
    stamps, ticks = np.array([0, 100]), np.array([0, 50, 100])
    stream = Stream(key="s", stamp_ns=stamps, receive_ns=stamps, values=np.stack((first, -second)))
    found = take(prepare(stream, policy), ticks, select(stamps, ticks, policy), policy)
    np.testing.assert_allclose(
        found, quat_from_rotvec(np.array([[0, 0, 0], [0, 0, 0.5], [0, 0, 1.0]])), atol=1e-12
    )


def test_the_default_configuration_needs_no_sensor() -> None:
    assert "/wrist/wrench" not in recorded_topics(load_session("default"))
