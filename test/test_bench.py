"""Every bench can be called, and its README names it."""

from pathlib import Path

import pytest

from bench.__main__ import main

FOLDER = Path(__file__).parents[1] / "bench"


def test_every_bench_is_listed_and_has_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    listed = capsys.readouterr().out
    lines = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    told = [line[4:].strip("`") for line in lines if line.startswith("## `")]
    assert "export_peers" in told
    for name in told:
        assert name in listed
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
