"""The docs move with the code: the configuration page is the generated one, and links lead somewhere."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_configuration_page_is_up_to_date() -> None:
    made = subprocess.run(
        [sys.executable, "scripts/configuration_docs.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    ).stdout
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == made


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_dependency_is_justified_and_pinned() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    section = project.split("\ndependencies = [")[1].split("]\n")[0]
    names = re.findall(r'^  "([A-Za-z0-9-]+)(\S*)', section, re.MULTILINE)
    assert len(names) > 60
    for name, pin in names:
        assert pin.startswith("=="), name
        assert name.startswith("ros-") or f"{name.lower()}" in page, name


def test_the_session_file_of_the_first_episodes_is_one() -> None:
    from piper_collect.config.load import override_session, session_from_text
    from piper_collect.config.override import DeviceWords

    page = (ROOT / "docs" / "first-episodes.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    config = session_from_text(text, "docs/first-episodes.md")
    assert (config.devices.arm, config.devices.cameras, config.devices.operator) == (
        "can",
        "realsense",
        "quest",
    )
    rehearsal = override_session(config, devices=DeviceWords(sim=True)).devices
    assert (rehearsal.arm, rehearsal.cameras, rehearsal.operator) == ("sim", "sim", "sim")


def test_the_options_of_record_in_the_docs_are_those_that_there_are() -> None:
    from argparse import ArgumentParser

    from piper_collect.cli.record import add_arguments

    parser = ArgumentParser()
    add_arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for command in re.findall(r"piper-collect record ([^`\n]*)", text):
            assert set(re.findall(r"(?<!\S)--[a-z]+", command)) <= known, f"{page.name}: record {command}"


@pytest.fixture
def reliability(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module("reliability_docs")


def test_the_reliability_page_has_declared_rows_only_and_each_was_counted(reliability: ModuleType) -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "shown by" not in line]
    assert rows
    declared = [reliability.declared(row) for row in reliability.faults()]
    places = [next(k for k, text in enumerate(declared) if line.startswith(text)) for line in rows]
    assert places == sorted(set(places))
    for line in rows:
        assert re.search(r"[1-9][0-9,]* tests?[^|]*\|$", line), line


def test_the_tests_of_the_reliability_page_are_there(reliability: ModuleType) -> None:
    for row in reliability.faults():
        for test in row.tests:
            file, _, name = test.partition("::")
            tree = ast.parse((ROOT / "test" / file).read_text(encoding="utf-8"))
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in {*names, ""}, test


def test_counts_of_a_run_are_added_up_and_a_failed_test_makes_no_page(
    reliability: ModuleType, tmp_path: Path
) -> None:
    row = reliability.Fault(group="g", fault="f", result="r", tests=("test_a.py::test_x",))
    junit = tmp_path / "results.xml"

    def said(*cases: str, before: str = "") -> str:
        junit.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        lines = list(reliability.table([row], reliability.outcomes([row], [junit]), before))
        return str(lines[-1]).removeprefix(reliability.declared(row)) if lines else ""

    def case(name: str, inner: str = "", module: str = "test.test_a") -> str:
        return f'<testcase classname="{module}" name="{name}">{inner}</testcase>'

    kills = '<properties><property name="kills" value="600" /></properties>'
    others = case("test_xy", kills), case("test_x", kills, module="test.test_b")
    assert said(case("test_x[1]", kills), case("test_x[2]", kills), *others) == " 1,200 kills, 2 tests |"
    assert said(case("test_x"), case("test_x[2]", "<skipped/>")) == " 1 test, 1 skipped where this was made |"
    with pytest.raises(SystemExit, match="test_x failed"):
        said(case("test_x", "<failure/>"))
    assert said(*others, before=f"{reliability.declared(row).replace('f', 'another')} 9 tests |") == ""
    assert said(*others, before=f"{reliability.declared(row)} 9 tests |") == " 9 tests |"
