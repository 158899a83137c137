"""Deleting the newest bag: the decision by itself, as a table."""

import pytest

from piper_collect.core.delete_last import Deletion, RecordedBag, decide_deletion


def bag(name, content_hash=None, session="pick"):
    return RecordedBag(
        session=session, bag=name, content_hash=f"hash of {name}" if content_hash is None else content_hash
    )


A, B, C = bag("a"), bag("b"), bag("c")


@pytest.mark.parametrize(
    ("newest", "held", "wanted"),
    [
        (C, [], Deletion()),
        (C, [A, B], Deletion()),
        (C, [C], Deletion(episodes=(0,))),
        (C, [A, B, C], Deletion(episodes=(2,))),
        (C, [A, C, C], Deletion(episodes=(1, 2))),
        (C, [A, C, B], Deletion(refusal="the dataset holds c as episode 1, with 1 more after it")),
        (C, [C, A, B, B], Deletion(refusal="the dataset holds c as episode 0, with 3 more after it")),
        (C, [C, C, B], Deletion(refusal="the dataset holds c as episodes 0, 1, with 1 more after it")),
        (C, [C, B, C], Deletion(refusal="the dataset holds c as episodes 0, 2, with others between")),
    ],
)
def test_the_bag_goes_alone_or_with_the_last_episodes_or_not_at_all(newest, held, wanted):
    assert decide_deletion(newest, held) == wanted


def test_a_renamed_copy_is_known_by_its_content():
    held = [A, bag("copy", C.content_hash, session="elsewhere")]
    assert decide_deletion(C, held) == Deletion(episodes=(1,))


def test_an_earlier_recording_of_the_same_name_is_another_bag():
    assert decide_deletion(C, [A, bag("c", "another hash")]) == Deletion()


@pytest.mark.parametrize(
    ("newest", "held"), [(bag("c", ""), C), (C, bag("c", "")), (bag("c", ""), bag("c", ""))]
)
def test_where_no_content_is_known_the_names_decide(newest, held):
    assert decide_deletion(newest, [A, held]) == Deletion(episodes=(1,))
    assert decide_deletion(newest, [held, A]).refusal


def test_names_that_nobody_gave_are_no_match():
    assert decide_deletion(bag("c", session=""), [bag("c", "", session="")]) == Deletion()
