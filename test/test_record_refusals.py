"""`record` ends with an error, and leaves nothing, where it could only wait."""

from dataclasses import replace

import pytest
from sample_bags import arm_messages, write_bag

from piper_collect.cli import main as cli
from piper_collect.config.schema import SessionConfig


def refused(capsys, *words):
    assert cli.main([*map(str, words)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_root_that_cannot_be_written_is_one_line_before_anything_starts(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    said = refused(capsys, "record", "--root", tmp_path / "file" / "recordings")
    assert f"{tmp_path}/file/recordings: the recording root cannot be written" in said
    assert "--root" in said


def test_a_simulated_operator_without_a_task_is_refused(tmp_path, capsys):
    file = tmp_path / "session.yaml"
    file.write_text("/**:\n  ros__parameters:\n    session: {task: '  '}\n")
    said = refused(capsys, "record", "--config", file, "--root", tmp_path / "recordings")
    assert "session.task: the task is empty" in said
    assert not (tmp_path / "recordings").exists()


def test_export_of_unfinished_recordings_alone_names_them(tmp_path, capsys):
    left = tmp_path / "pick" / ".recording" / "episode_000003"
    write_bag(left, arm_messages(2))
    said = refused(capsys, "export", tmp_path, "-o", tmp_path / "ds")
    assert f"only recordings that were never finished are here (got {left})" in said
    assert "piper-collect recover" in said
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize("optional", [False, True], ids=["required", "optional"])
def test_a_mistyped_field_ends_the_whole_session_with_the_nearest_word(ros_run, tmp_path, optional):
    from ros_support import names, record_command

    from piper_collect.config.load import dump_session

    base = SessionConfig()
    sources = dict(base.sources)
    key = "arm_eef" if optional else "arm_joint"
    typed, meant = ("poze", "pose") if optional else ("pozition", "position")
    sources[key] = replace(sources[key], field=typed, required=not optional)
    session = replace(base.session, root=str(tmp_path / "recordings"), task="stack")
    file = tmp_path / "session.yaml"
    file.write_text(dump_session(replace(base, session=session, sources=sources, cameras={})))
    process = ros_run.launch("record", record_command(file))
    try:
        assert process.wait() == 1, process.log()
    finally:
        process.end()
    said = process.log()
    assert f"sources.{key}.field" in said
    assert f"(got {typed}); did you mean '{meant}'?" in said
    assert "error: recorder ended by itself with exit code 1; the session was stopped" in said
    assert "Traceback" not in said
    assert not (tmp_path / "recordings").exists() or names(tmp_path / "recordings") == set()
