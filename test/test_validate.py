"""validate as a person meets it: exit status, text, JSON, HTML; and the survey that the page is made of."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from dataset_edits import FRONT, edit_info, edit_line, rows_path
from validation_cases import LAG_S, ROWS, write_dataset

from piper_collect.cli.main import main
from piper_collect.dataset.pictures import THUMBNAILS
from piper_collect.pipelines.validate import validate_dataset

CASES = Path(__file__).parents[2] / "shared/cases/lerobot"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    return {name: write_dataset(folder / name, name) for name in ("piper", "train")}


@pytest.fixture
def spoiled(good, tmp_path):
    """An error and a warning."""
    root = shutil.copytree(good["piper"], tmp_path / "ds")
    edit_info(root, lambda info: info.update(total_frames=1, splits={}))
    return root


def test_good_is_0(good, capsys):
    assert main(["validate", str(good["piper"])]) == 0
    said = capsys.readouterr().out
    assert said.endswith(f"{good['piper']}: 2 episodes, 90 rows, 0 errors, 0 warnings\n")
    assert "LeRobot 0.3.2/0.3.3, pyav" in said
    assert "refuses it: ValueError when it opens" in said
    assert main(["validate", str(good["train"]), "--fail-on", "warn"]) == 0


def test_findings_are_3(spoiled, good, tmp_path, capsys):
    assert main(["validate", str(spoiled)]) == 3
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("error: meta/info.json: total_frames is 1, the other files say 90")
    assert said[1].startswith("warning: meta/info.json: the split train")
    assert said[-1].endswith("1 error, 1 warning")
    warned = shutil.copytree(good["piper"], tmp_path / "warned")
    edit_info(warned, lambda info: info.update(splits={}))
    assert main(["validate", str(warned)]) == 0
    assert main(["validate", str(warned), "--fail-on", "warn"]) == 3


def test_quiet_says_only_what_counts(spoiled, good, capsys):
    assert main(["validate", str(good["piper"]), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["validate", str(spoiled), "--quiet"]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["validate", str(spoiled), "--quiet", "--fail-on", "warn"]) == 3
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_unreadable_is_1(tmp_path, capsys):
    assert main(["validate", str(tmp_path / "nowhere")]) == 1
    (tmp_path / "ds/meta").mkdir(parents=True)
    (tmp_path / "ds/meta/info.json").write_text("{")
    assert main(["validate", str(tmp_path / "ds")]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "is not valid JSON" in last


def test_usage_is_2(good, capsys):
    with pytest.raises(SystemExit) as end:
        main(["validate", str(good["piper"]), "--fail-on", "error"])
    assert end.value.code == 2
    assert "choose from" in capsys.readouterr().err


def test_json_is_the_report_and_nothing_else(spoiled, capsys):
    assert main(["validate", str(spoiled), "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert [f["code"] for f in report["findings"] if f["level"] == "error"] == ["totals"]
    facts = report["facts"]
    assert (facts["episodes"], facts["rows"], facts["decoded"]) == (2, 2 * ROWS, True)
    assert facts["measured"]["lag_ms"]["mean"] == pytest.approx(1e3 * LAG_S, abs=5)
    assert facts["measured"]["age_ms.cam_front"]["max"] < 34
    assert facts["dh_variants"] == ["s_v1_6_3"]
    assert 0.01 < facts["tolerance_s"]["LeRobot 0.3.2/0.3.3, pyav"] < 0.04


def test_the_page(good, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert main(["validate", str(good["piper"]), "--html", str(page)]) == 0
    text = page.read_text()
    assert "pick the cube" in text
    assert "GR00T n1.7" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert capsys.readouterr().out != ""


def test_a_page_that_cannot_be_written_is_one_error(good, tmp_path, capsys):
    assert main(["validate", str(good["piper"]), "--html", str(tmp_path / "no/where.html")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_quick_decodes_nothing(good, tmp_path):
    root = shutil.copytree(good["piper"], tmp_path / "ds")
    seen = []
    report = validate_dataset(root, decode=False, on_episode=lambda s, f: seen.append(s)).report
    assert report.facts["decoded"] is False
    assert seen[0].cameras[FRONT].pictures is None
    assert len(seen[0].cameras[FRONT].pts_s) == 44


def test_each_episode_is_handed_over_as_measured(good):
    seen, told = [], []
    validate_dataset(
        good["train"],
        on_episode=lambda survey, findings: seen.append((survey, findings)),
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(0, 2), (1, 2)]
    survey, findings = seen[1]
    assert findings == ()
    assert (survey.index, survey.task, survey.rows) == (1, "pick the cube", ROWS)
    assert survey.origin["bag"] == "episode_000001"
    assert set(survey.cameras) == {FRONT, "observation.images.cam_wrist"}
    camera = survey.cameras[FRONT]
    np.testing.assert_array_equal(camera.newest, np.arange(ROWS))
    assert [t.pixels.shape for t in camera.pictures.thumbnails] == [(48, 64, 3)] * THUMBNAILS
    assert survey.columns["observation.arm_eef"].names[3:] == ("qw", "qx", "qy", "qz")
    assert survey.age_ms["arm_joint"].max() == pytest.approx(0.0, abs=1e-6)
    assert 0 < survey.skew_ms.max() < 34
    assert survey.lag.lag_ms == pytest.approx(1e3 * LAG_S, abs=5)
    assert survey.kinematics.median_mm < 0.001


def test_findings_on_an_episode_go_with_it(good, tmp_path):
    root = shutil.copytree(good["piper"], tmp_path / "ds")
    edit_line(root, "episodes.jsonl", 1, lambda line: line.update(video_frame_length=1))
    seen = {}
    validate_dataset(root, on_episode=lambda survey, findings: seen.update({survey.index: findings}))
    assert [f.code for f in seen[1]] == ["frame-count"]
    assert seen[0] == ()


def test_an_episode_that_cannot_be_read_does_not_hide_the_next(good, tmp_path):
    root = shutil.copytree(good["piper"], tmp_path / "ds")
    rows_path(root, 0).write_bytes(b"x")
    report = validate_dataset(root).report
    codes = {f.code for f in report.findings if f.level == "error"}
    assert codes == {"rows-unreadable", "no-consumer"}
    assert report.facts["rows"] == ROWS


needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason=f"there are no {CASES}")


def errors(root):
    report = validate_dataset(root).report
    return report, {f.code: f.text for f in report.findings if f.level == "error"}


@needs_cases
def test_a_dataset_of_groot_with_a_camera_that_has_no_files():
    report, wrong = errors(CASES / "v20_groot_robot_sim.PickNPlace")
    assert list(wrong) == ["file-missing"]
    assert "of every episode is missing (5 of 5" in wrong["file-missing"]
    said = [f.text for f in report.findings]
    assert any("total_videos is 2, there should be 10" in text for text in said)
    assert any("timestamp starts at 0.050 s" in text for text in said)
    loads = {name for name, answer in report.facts["consumers"].items() if answer == "loads"}
    assert loads == {"GR00T n1.5, torchcodec", "GR00T n1.5, decord", "GR00T n1.6", "GR00T n1.7"}
    assert not any("stats" in f.code for f in report.findings), "its statistics are right"


@needs_cases
def test_fixtures_whose_indexes_are_floating_point_numbers():
    report, wrong = errors(CASES / "v21_tiny_fixtures/lerobotv2")
    assert set(wrong) == {"dtype", "episode-stats", "no-consumer"}
    assert any("ValueError at the first video: episode_index, task_index" in f.text for f in report.findings)
    report, wrong = errors(CASES / "v21_tiny_fixtures/lerobotv2-image")
    assert any("does not say that they are pictures" in f.text for f in report.findings)
    assert "frames-undecodable" not in wrong


@needs_cases
def test_a_table_of_episodes_without_its_columns_is_one_clear_error(capsys):
    assert main(["validate", str(CASES / "v21_tiny_fixtures/lerobotv3")]) == 1
    said = capsys.readouterr().err
    assert "columns are missing (expected data/chunk_index, data/file_index)" in said
