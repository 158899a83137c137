"""A check-up as people read it: a line a check, what is fine in short, the verdict last."""

import io

from hypothesis import given
from hypothesis import strategies as st

from piper_collect.core.checkup import CHECK_LEVELS, Check, Checkup, grouped
from piper_collect.report.checkup_lines import print_checks, print_verdict


def check(level, where="/a", what="rate", found="5 Hz", group="topics", **more):
    return Check(level=level, group=group, where=where, what=what, found=found, **more)


def printed(*checks):
    out = io.StringIO()
    print_checks(checks, out)
    print_verdict(Checkup(subject="my.yaml", checks=checks), out)
    return out.getvalue().splitlines()


def test_a_line_says_what_where_found_expected_and_what_to_do():
    full = check("FAIL", expected="30 Hz", hint="raise it")
    assert printed(full) == [
        "topics",
        "  FAIL       /a: rate: 5 Hz (expected 30 Hz) -> raise it",
        "not ready: 1 FAIL",
    ]
    assert check("ok", what="", where="ROS_DOMAIN_ID", found="7").line() == "ROS_DOMAIN_ID: 7"


def test_what_is_fine_in_one_place_shares_a_line_and_nothing_else_does():
    lines = printed(
        check("ok"),
        check("ok", what="type", found="Image"),
        check("ok", where="/b"),
        check("warn", where="/b", what="gap"),
        check("warn", where="/b", what="loss"),
    )
    assert lines[1:5] == [
        "  ok         /a: rate 5 Hz; type Image",
        "  ok         /b: rate: 5 Hz",
        "  warn       /b: gap: 5 Hz",
        "  warn       /b: loss: 5 Hz",
    ]
    assert lines[-1] == "ready: 2 warn"


def test_the_verdict_is_no_only_where_something_fails():
    assert Checkup(subject="", checks=()).verdict == "ready"
    assert Checkup(subject="", checks=(check("not known"),)).verdict == "ready: 1 not known"
    both = Checkup(subject="s", checks=(check("warn"), check("FAIL")))
    assert (both.ok, both.verdict) == (False, "not ready: 1 FAIL, 1 warn")
    assert both.to_json()["checks"][1]["level"] == "FAIL"
    assert both.to_json()["verdict"] == both.verdict


@given(
    st.lists(
        st.builds(
            check,
            st.sampled_from(CHECK_LEVELS),
            where=st.sampled_from(["/a", "/b"]),
            what=st.sampled_from(["x", "y"]),
            group=st.sampled_from(["one", "two"]),
        )
    )
)
def test_every_flaw_has_a_line_of_its_own_and_none_is_lost(checks):
    lines = [line for _, members in grouped(checks) for line in members]
    for level in ("warn", "FAIL", "not known"):
        assert [text for at, text in lines if at == level] == [c.line() for c in checks if c.level == level]
    told = sum(text.count("5 Hz") for _, text in lines)
    assert told == len(checks)
