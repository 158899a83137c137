"""The program from outside: exit codes, streams, JSON, locale, and that help imports nothing heavy."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sample_bags import START, arm_messages, custom, sample_bag, write_bag

from piper_collect.cli import main as cli
from piper_collect.errors import BagError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return sample_bag(tmp_path_factory.mktemp("recording") / "episode_000000")


def program(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "piper_collect", *map(str, words)],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        timeout=120,
    )


def test_export_then_validate(tmp_path, bag, capsys):
    assert cli.main(["export", str(bag), "-o", str(tmp_path / "ds")]) == 0
    out, err = capsys.readouterr()
    assert "episode_000000" in out
    assert "1 exported" in out
    assert out.count("stock LeRobot refuses") == 1
    assert err == ""
    assert cli.main(["validate", str(tmp_path / "ds")]) == 0
    assert "1 episode, 30 rows, 0 errors" in capsys.readouterr().out


def test_json_is_all_there_is_on_stdout(tmp_path, bag, capsys):
    assert cli.main(["export", str(bag), "-o", str(tmp_path / "ds"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert [(b["status"], b["rows"], b["episodes"]) for b in summary["bags"]] == [("exported", 30, [0])]
    assert summary["bags"][0]["video_frames"] == {"cam_front": 29, "cam_wrist": 29}
    assert cli.main(["validate", str(tmp_path / "ds"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"]
    warned = {f["code"] for f in report["findings"] if f["level"] != "info"}
    assert warned == {"flat-frames", "kinematics"}


def test_quiet_says_nothing(tmp_path, bag, capsys):
    assert cli.main(["export", str(bag), "-o", str(tmp_path / "ds"), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_recordings_that_are_not_whole_are_named_and_alone_are_a_failure(tmp_path, capsys):
    later = START + 10**10
    sample_bag(tmp_path / "rec/episode_000000")
    cut = sample_bag(tmp_path / "rec/episode_000001", start=later, outcome="interrupted")
    line = (
        "left out rec/episode_000001: the recording was interrupted "
        "(--allow-incomplete takes it all the same)\n"
    )
    words = ["-o", str(tmp_path / "ds"), "--quiet"]
    assert cli.main(["export", str(cut), *words]) == 1
    assert capsys.readouterr() == ("", line)
    assert not (tmp_path / "ds").exists()
    for _ in range(2):  # added, then in it already
        assert cli.main(["export", str(tmp_path / "rec"), *words]) == 0
        assert capsys.readouterr() == ("", line)
    assert cli.main(["export", str(cut), *words, "--allow-incomplete"]) == 0


def test_a_bag_that_fails_is_one_line_on_stderr_and_exit_1(tmp_path, capsys):
    bag = write_bag(tmp_path / "b", arm_messages(20), custom())
    assert cli.main(["export", str(bag), "-o", str(tmp_path / "ds")]) == 1
    out, err = capsys.readouterr()
    assert "1 failed" in out
    assert err.count("\n") == 1
    assert err.startswith("error: ")
    assert "no frames on /cam_front/image_raw/compressed" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["export", "nowhere", "-o", "ds"], "error: nowhere: no such path"),
        (["export", ".", "-o", "ds", "--profile", "pipre"], "did you mean 'piper'?"),
        (
            ["export", ".", "-o", "ds", "--config", "piper_ros_realsens"],
            "did you mean 'piper_ros_realsense'?",
        ),
        (["validate", "nowhere"], "error: nowhere: no such path (expected a dataset"),
    ],
)
def test_an_error_is_one_line_and_exit_1(tmp_path, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert expected in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words", [[], ["exprot"], ["export"], ["export", "x", "--split", "0"], ["validate", "--no-such"]]
)
def test_a_usage_error_is_exit_2(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(words)
    assert stopped.value.code == 2
    assert "usage: piper-collect" in capsys.readouterr().err


WRONG = [
    ("export b -o ds --dialect v3", "--dialect: no such dialect (got v3)"),
    ("export b -o ds --codec h264", "--codec: no such encoder (got h264)"),
    ("export b --watch", "--watch needs -o ROOT"),
    ("export b -o ds --watch --replace", "--replace does not go with --watch"),
    ("export b -o ds --watch --workers 2", "--workers does not go with --watch"),
    ("export b -o ds --split 0", "not a number of seconds above 0"),
    ("convert ds --to hdf6 -o out", "--to: no such dialect (got hdf6)"),
    ("edit ds --delete x", "not a list of episodes"),
    ("merge ds -o out", "there is nothing to merge (expected two datasets or more, got 1)"),
    ("prune s --yes --dry-run", "not allowed with argument"),
    ("finalize ds --horizon 0", "the horizon is no number of steps"),
    ("validate ds --ready --json", "--ready looks at every frame"),
    ("validate ds --fail-on info", "invalid choice"),
    ("view", "nothing to show"),
    ("view ds --live", "one thing at a time"),
    ("view --live --episode 3", "--live: --episode is not for this"),
    ("view ds --save x.html", "--save: no such kind of file (expected a name that ends in .rrd"),
    ("push ds pick", "REPO_ID: no name of a repository"),
    ("push ds me/pick -o card", "card: -o is for --dry-run"),
    ("replay ds --episode 0 --plot x.png", "--plot: no such kind of file (expected a name that ends in .svg"),
    ("replay ds", "the following arguments are required: --episode"),
    ("record --arm snim", "--arm: not a valid choice (got snim); did you mean 'sim'? Valid: sim, can"),
    ("record --operator me", "--operator: not a valid choice (got me)"),
    ("doctor --cameras none2", "--cameras: not a valid choice (got none2)"),
    ("doctor --seconds 0", "from 0.5 to 600 seconds"),
    ("node recoder_node", "no such node (got recoder_node); did you mean 'recorder_node'?"),
    ("info", "the following arguments are required"),
    ("recover", "the following arguments are required"),
    ("demo extra", "unrecognized arguments"),
    ("keyboard extra", "unrecognized arguments"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_wrong_words_are_usage_of_the_verb_and_exit_2_whatever_the_disk_holds(
    tmp_path, monkeypatch, capsys, line, said
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "nice", lambda by: 0)
    try:
        code = cli.main(line.split())
    except SystemExit as stopped:
        code = stopped.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("usage: piper-collect")
    assert ": error: " in err
    assert said in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


def test_every_verb_has_words_that_are_wrong():
    assert {line.split()[0] for line, _ in WRONG} == set(cli.VERBS)


@pytest.mark.parametrize("verb", ["", *cli.VERBS])
def test_help_tells_the_exit_codes(verb, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main([*([verb] if verb else []), "--help"])
    assert stopped.value.code == 0
    assert "exit codes of every verb: 0 done, 1 something failed, 2 wrong words" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [(KeyboardInterrupt(), 130, "interrupted"), (BagError("cut", where="b"), 1, "error: b: cut")],
)
def test_how_a_verb_ends(monkeypatch, capsys, error, code, said):
    class Verb:
        @staticmethod
        def add_arguments(parser):
            parser.add_argument("--x")

        @staticmethod
        def run(args):
            raise error

    monkeypatch.setitem(sys.modules, "a_verb_for_this_test", Verb)
    monkeypatch.setitem(cli.VERBS, "fall", ("a_verb_for_this_test", "fall over"))
    assert cli.main(["fall", "--x", "1"]) == code
    assert capsys.readouterr().err.strip() == said


def test_an_executable_may_be_named_after_its_verb(tmp_path, capsys):
    assert cli.main_as("/lib/piper_collect/validate", [str(tmp_path / "none")]) == 1
    assert cli.main_as("/bin/piper-collect", ["validate", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.count("no such path") == 2


def test_every_verb_in_the_table_is_there():
    for verb, (module, about) in cli.VERBS.items():
        path = ROOT / (module.replace(".", "/") + ".py")
        assert path.is_file(), verb
        assert about[:1].islower()


def test_help_of_export_names_every_profile(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["export", "--help"])
    assert stopped.value.code == 0
    listed = capsys.readouterr().out.partition("profiles:\n")[2].partition("exit code:")[0]
    names = {path.stem for path in (ROOT / "config/profiles").glob("*.yaml")}
    assert len(names) > 5
    assert names <= {line.split()[0] for line in listed.splitlines() if line.strip()}


@pytest.mark.parametrize("words", [["--help"], *([v, "--help"] for v in ("export", "finalize", "validate"))])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys\n"
        "from piper_collect.cli.main import main\n"
        "try:\n"
        f"    main({words!r})\n"
        "except SystemExit as stop:\n"
        "    print('CODE', stop.code)\n"
        "heavy = {'numpy', 'av', 'pyarrow', 'rosbags', 'mcap', 'rich', 'yaml', 'scipy', 'rclpy'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.endswith("CODE 0\nHEAVY []\n")
    assert "usage: piper-collect" in done.stdout


@pytest.mark.parametrize("encoding", ["", "ascii"])
def test_a_poor_locale_breaks_nothing(tmp_path, encoding):
    bag = sample_bag(tmp_path / "拾う", task="抓取 the cube")
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    if encoding:
        environment["PYTHONIOENCODING"] = encoding
    done = program("export", bag, "-o", tmp_path / "ds", **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"1 exported" in done.stdout
    lines = (tmp_path / "ds/meta/tasks.jsonl").read_bytes().decode("utf-8")
    assert json.loads(lines)["task"] == "抓取 the cube"
    again = program("export", bag, "-o", tmp_path / "ds", "--json", **environment)
    held = json.loads(again.stdout)["bags"][0]
    assert (held["status"], Path(held["bag"]).name) == ("held", "拾う")
    failed = program("validate", tmp_path / "無", **environment)
    assert (failed.returncode, failed.stderr.count(b"\n")) == (1, 1)


def test_the_recording_start_decides_the_order_in_the_table(tmp_path, capsys):
    sample_bag(tmp_path / "rec" / "a", start=START + 10**10)
    sample_bag(tmp_path / "rec" / "b")
    assert cli.main(["export", str(tmp_path / "rec"), "-o", str(tmp_path / "ds"), "--json"]) == 0
    bags = json.loads(capsys.readouterr().out)["bags"]
    assert [Path(b["bag"]).name for b in bags] == ["b", "a"]
