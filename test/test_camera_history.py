"""extras/cameras.json: a new entry only where the intrinsics change, and back to each episode's own."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piper_collect.core.camera_history import cameras_content, infos_by_episode, merged_cameras
from piper_collect.errors import DatasetError

FRONT, SHARPER = {"k": [500.0, 0.0], "serial": "1"}, {"k": [501.0, 0.0], "serial": "1"}
WRIST = {"k": [400.0, 0.0], "serial": None}


def test_the_first_episode_begins_an_entry_for_each_of_its_cameras():
    assert merged_cameras(None, 0, {"front": FRONT, "wrist": WRIST}) == {
        "front": [{"from_episode": 0, "info": FRONT}],
        "wrist": [{"from_episode": 0, "info": WRIST}],
    }


def test_an_entry_is_added_only_where_the_values_change():
    content = None
    for index, front in enumerate((FRONT, dict(FRONT), SHARPER, SHARPER, FRONT)):
        content = merged_cameras(content, index, {"front": front, "wrist": WRIST})
    assert content == {
        "front": [
            {"from_episode": 0, "info": FRONT},
            {"from_episode": 2, "info": SHARPER},
            {"from_episode": 4, "info": FRONT},
        ],
        "wrist": [{"from_episode": 0, "info": WRIST}],
    }


def test_an_episode_without_intrinsics_does_not_inherit_those_before_it():
    content = merged_cameras(None, 0, {})
    assert content == {}
    for index, infos in ((1, {"front": FRONT}), (2, {}), (3, {}), (4, {"front": FRONT})):
        content = merged_cameras(content, index, infos)
    assert content == {
        "front": [
            {"from_episode": 1, "info": FRONT},
            {"from_episode": 2, "info": None},
            {"from_episode": 4, "info": FRONT},
        ]
    }


def test_appending_leaves_what_it_was_given_alone():
    before = {"front": [{"from_episode": 0, "info": FRONT}]}
    copy = json.loads(json.dumps(before))
    merged_cameras(before, 1, {"front": SHARPER})
    assert before == copy


def test_a_dataset_cut_short_forgets_the_entries_of_the_episodes_that_went():
    content = cameras_content([{"front": FRONT}, {"front": FRONT}, {"front": SHARPER}])
    assert merged_cameras(content, 2, {"front": FRONT}) == {"front": [{"from_episode": 0, "info": FRONT}]}


histories = st.lists(
    st.dictionaries(st.sampled_from(["front", "wrist"]), st.sampled_from([FRONT, SHARPER, WRIST])),
    max_size=12,
)


@settings(deadline=None, max_examples=100)
@given(histories)
def test_each_episode_reads_back_its_own_also_through_json(history):
    content = json.loads(json.dumps(cameras_content(history)))
    assert infos_by_episode(content, len(history)) == history
    grown = None
    for index, infos in enumerate(history):
        grown = merged_cameras(grown, index, infos)
    assert (grown or {}) == content


@pytest.mark.parametrize(
    "entries",
    [
        None,
        [],
        "front",
        [{"from_episode": 0}],
        [{"info": FRONT}],
        [{"from_episode": "0", "info": FRONT}],
        [{"from_episode": 0, "info": [1]}],
        [{"from_episode": 1, "info": FRONT}, {"from_episode": 1, "info": None}],
    ],
)
def test_a_damaged_file_is_refused_by_the_camera(entries):
    with pytest.raises(DatasetError, match=r"extras/cameras.json, front"):
        merged_cameras({"front": entries}, 3, {})


@settings(deadline=None, max_examples=100)
@given(histories, st.integers(0, 12), histories)
def test_one_more_episode_after_any_cut_is_as_if_all_were_written_anew(history, kept, more):
    kept = min(kept, len(history))
    infos = more[0] if more else {}
    content = cameras_content(history)
    assert merged_cameras(content, kept, infos) == cameras_content([*history[:kept], infos])
