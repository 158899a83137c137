"""The doctor's look at the machine: each planted fault is found, and what to do is said."""

import json
import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rosbag2_double import Rosbag2

from piper_collect.cli import main as cli
from piper_collect.config.load import dump_session, load_session
from piper_collect.core.ros_checks import RosFacts, ros_checks
from piper_collect.pipelines.machine_look import machine_checks, system_clock
from piper_collect.web.addresses import own_addresses, own_names
from piper_collect.web.certificate import FILE_NAME, ensure_certificate

ROOT = Path(__file__).resolve().parents[1]
HERE = (*own_names(), *own_addresses())
CHANCE = {("system clock", "kept in step"), ("/dev/shm", "shared memory"), ("ROS_DOMAIN_ID", "")}
"""What depends on the machine that the tests run on."""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("ROS_DOMAIN", "ROS_AUTO", "ROS_LOCALHOST", "RMW_", "FASTRTPS_", "FASTDDS_")):
            monkeypatch.delenv(name)


@pytest.fixture
def doctor(tmp_path, capsys):
    """Calls the doctor for a session: its flaws by (where, what), its exit code, and all that it printed."""

    def call(base="default", **sections):
        config = load_session(base)
        settings = {"session": {"root": str(tmp_path / "bags")}, **sections}
        config = replace(
            config,
            **{name: replace(getattr(config, name), **values) for name, values in settings.items()},
        )
        file, out = tmp_path / "my.yaml", tmp_path / "doctor.json"
        file.write_text(dump_session(config), encoding="utf-8")
        code = cli.main(["doctor", "--config", str(file), "--no-ros", "--json", str(out)])
        checks = json.loads(out.read_text(encoding="utf-8"))["checks"]
        flaws = {
            (c["where"], c["what"]): c
            for c in checks
            if c["level"] in ("warn", "FAIL") and (c["where"], c["what"]) not in CHANCE
        }
        return code, flaws, capsys.readouterr().out

    return call


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_machine_that_is_as_it_should_be(doctor, tmp_path):
    code, flaws, out = doctor(
        "quest", quest={"port": free_port(), "certificate_dir": str(tmp_path / "new" / "place")}
    )
    assert (code, flaws) == (0, {}), out
    assert "will be made at the start" in out
    assert out.splitlines()[-1].startswith("ready")
    assert not (tmp_path / "bags").exists()
    assert not (tmp_path / "new").exists()


def test_too_little_room(doctor, tmp_path):
    code, flaws, _ = doctor(recorder={"min_free_gb": 1e9})
    (check,) = flaws.values()
    assert (code, check["level"], check["what"]) == (1, "FAIL", "room")
    assert f"GB free at {tmp_path / 'bags'}, 1000000000.0 are needed" in check["found"]
    assert "recorder.min_free_gb" in check["hint"]


def test_a_root_that_cannot_be_made(doctor, tmp_path):
    (tmp_path / "file").write_text("")
    code, flaws, out = doctor(session={"root": str(tmp_path / "file" / "bags")})
    (check,) = flaws.values()
    assert (code, check["level"], check["what"]) == (1, "FAIL", "recording root")
    assert "the recording root cannot be written" in check["found"]
    assert "--root" in check["hint"]
    assert out.splitlines()[-1].startswith("not ready: 1 FAIL")


def test_recordings_that_were_never_finished(doctor, tmp_path):
    (tmp_path / "bags" / "cups_20260101_120000" / ".recording" / "episode_000002").mkdir(parents=True)
    code, flaws, _ = doctor()
    assert code == 0
    assert "1 were never finished" in flaws[str(tmp_path / "bags"), "recordings"]["found"]


def test_a_storage_that_cannot_be_written_here_is_told_in_the_recorders_words(doctor, monkeypatch):
    monkeypatch.setitem(sys.modules, "rosbag2_py", None)
    code, flaws, _ = doctor(recorder={"storage": "sqlite3", "storage_backend": "rosbag2_py"})
    check = flaws["recorder.storage", ""]
    assert (code, check["level"]) == (1, "FAIL")
    assert check["found"].startswith("rosbag2_py cannot be imported (got ")
    assert check["hint"].endswith("or set recorder.storage_backend: pip")
    _, _, out = doctor(recorder={"storage": "sqlite3", "storage_backend": "pip"})
    assert "recorder.storage: sqlite3, by pip (sqlite 3." in out


def test_a_rosbag2_that_is_there_and_not_used_is_told(doctor, monkeypatch):
    monkeypatch.setitem(sys.modules, "rosbag2_py", Rosbag2(plugins=("mcap",)))
    code, flaws, out = doctor()
    assert (code, flaws) == (0, {})
    assert "recorder.storage: mcap, by rosbag2_py" in out
    code, flaws, _ = doctor(recorder={"storage": "sqlite3"})
    check = flaws["recorder.storage", ""]
    assert (code, check["level"]) == (0, "warn")
    assert "rosbag2_py is not used: rosbag2_py has no plugin for this storage" in check["found"]


def test_a_simulated_operator_without_a_task(doctor, tmp_path):
    code, flaws, _ = doctor(session={"root": str(tmp_path), "task": ""})
    assert code == 1
    assert flaws[str(tmp_path / "my.yaml"), "task"]["hint"] == 'give --task "what is done"'


def test_a_can_interface_that_is_not_there(doctor):
    code, flaws, _ = doctor(devices={"arm": "can"}, can={"channel": "can97"})
    check = flaws["can97", "CAN interface"]
    assert (code, check["level"]) == (1, "FAIL")
    assert "there is no such interface" in check["found"]
    assert "gs_usb" in check["hint"]


def test_a_port_in_use(doctor, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, flaws, _ = doctor("quest", quest={"port": port, "certificate_dir": str(tmp_path)})
    check = flaws[f"127.0.0.1:{port}", "port"]
    assert (code, check["level"]) == (1, "FAIL")
    assert "in use" in check["found"]
    assert "quest.port" in check["hint"]


def certificate_flaws(doctor, **quest):
    code, flaws, out = doctor("quest", quest={"port": free_port(), **quest})
    return code, {what: (c["level"], c["found"]) for (_, what), c in flaws.items()}, out


def test_the_kept_certificate_is_told_and_needs_no_care(doctor, tmp_path):
    path = ensure_certificate(tmp_path / "kept", HERE)
    code, flaws, out = certificate_flaws(doctor, certificate_dir=str(tmp_path / "kept"))
    assert (code, flaws) == (0, {})
    assert f"{path}: certificate: serves until " in out

    path.chmod(0o644)
    code, flaws, _ = certificate_flaws(doctor, certificate_dir=str(tmp_path / "kept"))
    assert (code, flaws) == (0, {"key": ("warn", f"others can read it: mode 644 of {path}")})


def test_a_desk_page_beyond_this_machine_needs_the_certificate_too(doctor, tmp_path):
    kept = {"certificate_dir": str(tmp_path / "kept")}
    old = ensure_certificate(tmp_path / "old", HERE, datetime(2020, 1, 1, tzinfo=UTC))
    quest = {"certificate": str(old)}
    assert doctor(quest=quest)[:2] == (0, {})
    code, flaws, _ = doctor(desk={"host": "0.0.0.0"}, quest=quest)
    check = flaws[str(old), "certificate"]
    assert (code, check["level"], check["found"]) == (0, "warn", "expired on 2021-12-31")
    code, flaws, out = doctor(desk={"host": "0.0.0.0"}, quest=kept)
    assert (code, flaws) == (0, {})
    assert "certificate: will be made at the start" in out


@pytest.mark.parametrize("spoiled", ["expired", "names", "no certificate", "folder"])
def test_a_kept_certificate_that_is_made_anew(doctor, tmp_path, spoiled):
    folder = tmp_path / "kept"
    if spoiled == "expired":
        ensure_certificate(folder, HERE, datetime(2020, 1, 1, tzinfo=UTC))
        expected = {"certificate": ("warn", "expired on 2021-12-31")}
    elif spoiled == "names":
        ensure_certificate(folder, HERE)
        expected = {"names": ("warn", "does not name desk.example")}
    elif spoiled == "no certificate":
        folder.mkdir()
        (folder / FILE_NAME).write_text("nothing")
        expected = {"certificate": ("warn", "cannot be read: it holds no certificate")}
    else:
        (folder / FILE_NAME).mkdir(parents=True)
        expected = {"certificate": ("warn", "cannot be read: Is a directory")}
    names = ("desk.example",) if spoiled == "names" else ()
    code, flaws, out = certificate_flaws(doctor, certificate_dir=str(folder), names=names)
    assert (code, flaws) == (0, expected)
    assert "the session makes a new one" in out


def test_a_certificate_of_yours(doctor, tmp_path):
    good = ensure_certificate(tmp_path / "good", ("desk.example",))
    code, flaws, _ = certificate_flaws(doctor, certificate=str(good), names=("desk.example",))
    assert (code, flaws) == (0, {})

    code, flaws, _ = certificate_flaws(doctor, certificate=str(good), names=("lab.example",))
    assert (code, flaws) == (0, {"names": ("warn", "does not name lab.example")})

    old = ensure_certificate(tmp_path / "old", HERE, datetime(2020, 1, 1, tzinfo=UTC))
    code, flaws, _ = certificate_flaws(doctor, certificate=str(old))
    assert (code, flaws) == (1, {"certificate": ("FAIL", "expired on 2021-12-31")})

    code, flaws, _ = certificate_flaws(doctor, certificate=str(tmp_path / "none.pem"))
    assert (code, flaws["certificate"][0]) == (1, "FAIL")
    assert "No such file" in flaws["certificate"][1]


@pytest.mark.parametrize(
    ("name", "value", "level", "text"),
    [
        ("ROS_DOMAIN_ID", "kitchen", "FAIL", "'kitchen'"),
        ("ROS_DOMAIN_ID", "150", "warn", "its ports lie among those that Linux gives"),
        ("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHSOT", "FAIL", "'LOCALHSOT'"),
        ("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF", "FAIL", "no node finds another"),
        ("ROS_LOCALHOST_ONLY", "yes", "warn", "'yes'"),
        ("FASTRTPS_DEFAULT_PROFILES_FILE", "/nowhere/dds.xml", "FAIL", "which is not there"),
    ],
)
def test_an_environment_in_which_nodes_do_not_find_each_other(tmp_path, name, value, level, text):
    config = load_session("default")
    config = replace(config, session=replace(config.session, root=str(tmp_path)))
    checks = [c for c in machine_checks(config, environment={name: value}) if c.group == "ROS"]
    (flaw,) = [c for c in checks if c.level != "ok"]
    assert flaw.level == level
    assert text in flaw.found
    assert flaw.hint
    plain = [c.level for c in machine_checks(config, environment={}) if c.group == "ROS"]
    assert plain == ["ok"] * 4


def test_the_kernels_word_on_the_clock_is_asked_for_and_nothing_is_set():
    clock = system_clock()
    assert clock.synchronised in (True, False, None)
    assert (clock.error_ms is not None) == (clock.synchronised is True)


@pytest.mark.parametrize(
    ("rmw", "installed", "level"),
    [
        (None, ("rmw_fastrtps_cpp",), "ok"),
        (None, (), "ok"),
        ("rmw_cyclonedds_cpp", ("rmw_cyclonedds_cpp", "rmw_fastrtps_cpp"), "warn"),
        ("rmw_cyclonedds_cpp", (), "warn"),
        ("rmw_cyclonedds_cpp", ("rmw_fastrtps_cpp",), "FAIL"),
    ],
)
def test_a_middleware_that_is_not_the_one_tried_or_not_there(rmw, installed, level):
    checks = {c.where: c.level for c in ros_checks(RosFacts(rmw=rmw, rmw_installed=installed))}
    assert checks["RMW_IMPLEMENTATION"] == level


def test_where_ros_would_end_the_program_no_topic_is_looked_at(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "500")
    assert cli.main(["doctor", "--root", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "not looked at: the ROS environment must be put right first" in lines[-2]
    assert lines[-1].startswith("not ready: ")


BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("piper_sdk", "rclpy", "segno", "zstandard"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
from piper_collect.cli.main import main
sys.exit(main(["doctor", "--config", sys.argv[1], "--json", sys.argv[2]]))
"""


def test_packages_that_are_missing(tmp_path):
    config = load_session("default")
    config = replace(
        config,
        session=replace(config.session, root=str(tmp_path)),
        devices=replace(config.devices, arm="can"),
        can=replace(config.can, interface="udp_multicast", channel="239.74.163.2"),
    )
    (tmp_path / "my.yaml").write_text(dump_session(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, str(tmp_path / "my.yaml"), str(tmp_path / "out.json")],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    assert (done.returncode, done.stderr) == (1, "")
    checks = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["checks"]
    missing = {c["where"]: c for c in checks if c["level"] == "FAIL"}
    assert len(missing) == 3
    assert "the session needs it" in missing["zstandard"]["found"]
    (page,) = [c for c in checks if c["where"] == "segno"]
    assert page["level"] == "warn"
    assert "desk.serve needs it; without it there is no page at the desk" in page["found"]
    assert "devices.arm: can needs it" in missing["piper_sdk"]["found"]
    assert missing["piper_sdk"]["hint"] == "pip install piper_sdk==0.6.2"
    (rclpy,) = [c for where, c in missing.items() if "rclpy" in where]
    assert "setup.bash" in rclpy["hint"]
    (topics,) = [c for c in checks if c["group"] == "topics"]
    assert (topics["level"], "rclpy" in topics["found"]) == ("not known", True)


def test_it_takes_the_options_of_record(tmp_path, capsys):
    words = ["--no-ros", "--root", str(tmp_path), "--arm", "can", "--operator", "none", "--task", "stack"]
    assert cli.main(["doctor", *words]) == 1
    out = capsys.readouterr().out
    assert "configuration arm can, cameras sim, operator none; task stack" in out
    assert "can0: CAN interface" in out


@pytest.mark.parametrize("seconds", ["0", "soon", "-3", "nan", "1e9"])
def test_a_wrong_time_to_listen_is_a_usage_error(seconds, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["doctor", "--seconds", seconds])
    assert end.value.code == 2
    assert "from 0.5 to 600 seconds" in capsys.readouterr().err


def test_what_cannot_be_read_or_written_is_one_line(tmp_path, capsys):
    assert cli.main(["doctor", "--config", "defualt"]) == 1
    assert "did you mean 'default'?" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    words = ["doctor", "--no-ros", "--root", str(tmp_path), "--json", str(tmp_path / "file" / "x.json")]
    assert cli.main(words) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "cannot be written" in err
