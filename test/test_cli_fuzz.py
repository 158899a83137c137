"""Command lines of any words: help, a line that says what is wrong, or what was asked for; never a trace.

Every verb's options are taken from its own parser. What starts nodes or asks the network is parsed only.
``PIPER_COLLECT_FUZZ=50`` tries fifty times as many, other ones in each run.
"""

import argparse
import contextlib
import importlib
import io
import os
import shutil
import sys
from pathlib import Path

import pytest
from dataset_cases import tree
from export_cases import run, varied_bags
from fuzz_support import fuzzed
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from piper_collect.cli.main import VERBS, _parser, main

pytestmark = pytest.mark.usefixtures("no_sync")

PARSED_ONLY = ("demo", "doctor", "record", "keyboard", "view", "push", "node")
NEVER = {"--watch", "--ray", "--help"}
"""These go on until they are stopped, or ask other machines."""

# fmt: off
NAMES = [
    "ds", "bags", "bags/pick_20260101_120000", "./bags", "ds/meta", "ds/meta/info.json", "out",
    "out/../out2", "none", "", " ", ".hidden", "a\nb", "a\x00b", "\udcff", "-", "--", "x" * 300,
    "\x1b[31mred", "ds\x00/../..", "ün",
]
WORDS = [
    "", "0", "-1", "1", "3-1", "0-99999999999", "9" * 40, "9" * 5000, "1e309", "-1e309", "nan", "inf",
    "1e-300", "..", "../../outside", "/outside", "a/b", "a\nb", "a\x00b", "\udcff", "%s%n{}", "*",
    "$(touch outside)", "default", "piper", "train", "lerobot-v2.1", "lerobot-v3.0", "v3.0", "h264",
    "warn", "--json", "0,1,", "\u0663", "{a: b}",
]
# fmt: on


def arguments(verb: str) -> list[argparse.Action]:
    verbs = next(a for a in _parser(verb)._actions if isinstance(a, argparse._SubParsersAction))
    return [action for action in verbs.choices[verb]._actions if not NEVER & set(action.option_strings)]


def values(action: argparse.Action) -> st.SearchStrategy[str]:
    """What might be given; paths stay in the folder, since who names another asks for it."""
    noise = st.text(st.characters(exclude_characters="/"), max_size=6)
    return st.sampled_from(NAMES) | noise if action.type is Path else st.sampled_from(WORDS) | noise


def lines(verb: str) -> st.SearchStrategy[list[str]]:
    """Words after the verb: some of its options, each as it may be or not, then as many places as it has."""
    options, places = [], []
    for action in arguments(verb):
        if not action.option_strings:
            places.append(st.lists(values(action), min_size=1, max_size=2 if action.nargs == "+" else 1))
        elif action.nargs == 0:
            options.append(st.just([action.option_strings[0]]))
        else:
            option = action.option_strings[-1]
            options.append(values(action).map(lambda value, option=option: [f"{option}={value}"]))
    chosen = st.lists(st.one_of(options), max_size=4) if options else st.just([])
    odd = st.sampled_from([[], [], [], ["--no-such"], ["--"], ["\x00"], ["extra"]])
    parts = st.tuples(chosen, *places, odd)
    return parts.map(lambda found: [word for part in (*found[0], *found[1:]) for word in part])


def said(words: list[str]) -> tuple[int, str, str]:
    """Exit code, and what was printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    return code, out.getvalue(), err.getvalue()


def judge(words: list[str]) -> None:
    code, out, err = said(words)
    assert code in (0, 1, 2, 3), words
    assert "Traceback" not in out + err, words
    if code:
        assert (out + err).strip(), words
    if code == 1 and err.startswith("error:"):
        assert len(err.splitlines()) == 1, err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    varied_bags(folder / "bags", 2, sessions=1)
    run(folder / "bags", folder / "ds", allow_incomplete=True)
    return folder


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in PARSED_ONLY])
def test_a_command_line_may_be_anything(made, tmp_path, monkeypatch, tally, verb):
    guard = tmp_path / "guard"
    work = guard / "work"
    (guard / "beside").mkdir(parents=True)
    (guard / "beside" / "file").write_text("not yours")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    @given(lines(verb))
    @settings(fuzzed(12), phases=(Phase.generate,))
    def look(words):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(made, work)
        os.chdir(work)
        judge([verb, *words])
        shutil.rmtree(work)
        assert set(tree(guard)) == {"beside", "beside/file"}
        tally("command lines tried")

    monkeypatch.chdir(tmp_path)
    look()
    os.chdir(tmp_path)
    assert not Path("/outside").exists()


@pytest.mark.parametrize("verb", PARSED_ONLY)
def test_what_starts_something_is_parsed_first(tmp_path, monkeypatch, tally, verb):
    monkeypatch.setattr(importlib.import_module(VERBS[verb][0]), "run", lambda args: 0)
    monkeypatch.chdir(tmp_path)

    @given(lines(verb))
    @settings(fuzzed(25), phases=(Phase.generate,))
    def look(words):
        judge([verb, *words])
        tally("command lines tried")

    look()
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["--version"], ["no-such-verb"], ["\x00"], ["--", "x"], [""]]
)
def test_without_a_verb_there_is_help(words):
    judge(words)
    assert said(words)[0] == (0 if words in (["--help"], ["--version"]) else 2)
