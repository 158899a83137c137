"""The docs move with the code: the configuration page is the generated one, and links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

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
