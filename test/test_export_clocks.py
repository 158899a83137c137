"""Wrong clocks at export: named and left, refused, or put right, as the configuration says."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from bag_faults import JOINTS, shifted, zero
from export_cases import frame_messages
from sample_bags import MS, START, arm_messages, custom, write_bag

from piper_collect.bag.reader import open_bag
from piper_collect.bag.sidecar import read_record
from piper_collect.config.load import dump_session
from piper_collect.config.profile import load_profile
from piper_collect.config.schema import CameraSettings, SessionConfig
from piper_collect.core.host_clock import HostStep
from piper_collect.pipelines.bag_episodes import ExportOptions
from piper_collect.pipelines.export import export
from piper_collect.pipelines.validate_bag import validate_bag

SECONDS = 10
IMAGES = "/cam/image_raw/compressed"


def content():
    """Ten seconds: joints, poses and targets every 20 ms, received 1 ms later; pictures, 9 ms later."""
    frames = frame_messages("cam", range(3, SECONDS * 1000, 100), delays_ms=[9] * (SECONDS * 10))
    return [*arm_messages(SECONDS * 50, period_ms=20), *frames]


def config(policy, *, clock_step="refuse", latency=True):
    """Joints and the camera by ``policy``; what is known of their transport as latency."""
    base = SessionConfig()
    known = {"arm_joint": 1.0, "gripper": 1.0} if latency and policy == "correct" else {}
    sources = {
        key: dataclasses.replace(source, clock=policy, latency_ms=known.get(key, 0.0))
        if source.topic == "arm/joint_states"
        else source
        for key, source in base.sources.items()
    }
    camera = CameraSettings(
        width=64, height=48, clock=policy, latency_ms=9.0 if known else 0.0, max_age_ms=300
    )
    recorder = dataclasses.replace(base.recorder, clock_step=clock_step)
    return dataclasses.replace(base, sources=sources, cameras={"cam": camera}, recorder=recorder)


def bag(path, messages, **more):
    return write_bag(path, messages, custom(end_ms=SECONDS * 1000, **more))


def run(path, root, settings, **options):
    options = ExportOptions(profile=load_profile("piper"), config=settings, **options)
    return export([path], root, options).bags[0]


def dataset(root):
    """Rows and capture times of the frames that they show, and what is told of the recording."""
    rows = pq.read_table(root / "data/chunk-000/episode_000000.parquet").to_pydict()
    shown = pq.read_table(next(root.rglob("*.samples.parquet"))).to_pydict()
    source = json.loads((root / "meta/episode_sources.jsonl").read_text())
    return rows, shown, source["recording"]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    assert run(bag(folder / "b", content()), folder / "ds", config("flag")).status == "exported"
    return dataset(folder / "ds")


def offset(k, period_ms):
    return -300


def ahead(k, period_ms):
    return 40


def epoch(k, period_ms):
    return -1.6e12


def drift(k, period_ms):
    return -k * period_ms * 2000e-6


def steps(k, period_ms):
    return (700 if k * period_ms >= 3100 else 0) - (1200 if k * period_ms >= 6500 else 0)


WRONG = {
    "offset": (offset, "stamps lie at least 3", "a clock behind, or held up"),
    "ahead": (ahead, "ms after their receipt: the clock runs ahead", ""),
    "epoch": (epoch, "days from the recorder's time: another epoch", ""),
    "drift": (drift, "the clock runs 200", "ppm slower than the recorder's"),
    "steps": (steps, "the clock was set +700 ms, -1200 ms while it was recorded", ""),
}


def wrong(kind):
    shift, *_ = WRONG[kind]
    moved = shifted(content(), JOINTS, lambda k: shift(k, 20))
    return list(shifted(moved, IMAGES, lambda k: shift(k, 100)))


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_clock_is_refused_named_or_put_right(kind, clean, tmp_path):
    path = bag(tmp_path / "b", wrong(kind))
    _, *words = WRONG[kind]

    refused = run(path, tmp_path / "refused", config("refuse"))
    assert refused.status == "failed"
    assert "sources.arm_joint.clock says refuse" in refused.reason
    assert all(word in refused.reason for word in words), refused.reason
    assert not (tmp_path / "refused").exists()

    flagged = run(path, tmp_path / "flagged", config("flag"))
    if kind == "epoch":
        assert "stamped by different clocks" in flagged.reason
    elif flagged.status == "exported":
        told = next(note for note in flagged.notes if note.startswith(f"{JOINTS}: "))
        assert all(word in told for word in words), told
        assert dataset(tmp_path / "flagged")[2]["clock_faults"][JOINTS] in told

    corrected = run(path, tmp_path / "corrected", config("correct"))
    assert corrected.status == "exported", corrected.reason
    rows, shown, recording = dataset(tmp_path / "corrected")
    assert rows["timestamp"] == clean[0]["timestamp"]
    tolerance = {"drift": 0.08}.get(kind, 0)  # ms; a slope is measured, an offset is read
    for key in ("arm_joint", "cam"):
        apart = np.abs(np.array(shown[key]) - np.array(clean[1][key]))
        assert apart.max() <= tolerance * MS, (key, apart.max())
    if kind != "drift":
        assert rows == clean[0]
    made = recording["clock_corrections"]["sources.arm_joint"]
    assert made["topic"] == JOINTS
    assert words[0] in made["because"]
    assert made["pieces"][0]["from_receive_ns"] == START + MS
    assert sorted(recording["clock_corrections"]) == ["cameras.cam", "sources.arm_joint", "sources.gripper"]
    assert any(note.startswith("cameras.cam: stamps corrected by ") for note in corrected.notes)


def test_the_original_stamps_stay_in_the_bag(tmp_path):
    path = bag(tmp_path / "b", wrong("offset"))
    before = {p.name: p.read_bytes() for p in path.iterdir()}
    run(path, tmp_path / "ds", config("correct"))
    assert {p.name: p.read_bytes() for p in path.iterdir()} == before


def test_a_clock_that_is_right_is_not_touched_by_correct(clean, tmp_path):
    right = run(bag(tmp_path / "b", content()), tmp_path / "ds", config("correct", latency=False))
    assert right.status == "exported"
    rows, shown, recording = dataset(tmp_path / "ds")
    assert (rows, shown) == clean[:2]
    assert not [key for key in recording if key.startswith("clock_")]


def repeated(k):
    return -20 if k in (7, 50) else 0


def back(k):
    return -90 if k == 50 else 0


@pytest.mark.parametrize(("change", "words"), [
    (lambda m: list(changed_stamps(m, zero_all=True)), "all 500 header stamps are zero"),
    (lambda m: list(changed_stamps(m, zero_all=False)), "2 of 500 header stamps are zero"),
    (lambda m: list(shifted(m, JOINTS, repeated)), "2 stamps equal the one before"),
    (lambda m: list(shifted(m, JOINTS, back)), "1 stamps lie before one received"),
])  # fmt: skip
def test_what_no_shift_can_mend_is_refused_or_told(change, words, tmp_path):
    path = bag(tmp_path / "b", change(content()))
    refused = run(path, tmp_path / "refused", config("refuse"))
    assert (refused.status, words in refused.reason) == ("failed", True), refused.reason
    for policy in ("flag", "correct"):
        outcome = run(path, tmp_path / policy, config(policy, latency=False))
        assert outcome.status == "exported", outcome.reason
        assert len([note for note in outcome.notes if words in note]) == 1, outcome.notes


def changed_stamps(messages, *, zero_all):
    number = 0
    for name, receive_ns, message in messages:
        if name == JOINTS:
            if zero_all or number in (7, 50):
                zero(message)
            number += 1
        yield name, receive_ns, message


def test_stamps_that_stand_still_are_no_clock_that_could_be_corrected(tmp_path):
    path = bag(tmp_path / "b", shifted(content(), JOINTS, lambda k: -20 * k - 3_600_000))
    refused = run(path, tmp_path / "ds", config("correct"))
    assert refused.status == "failed"
    assert "cannot be corrected" in refused.reason
    assert "its stamps follow no clock" in refused.reason
    assert "499 stamps equal the one before" in refused.reason


def test_a_recording_of_others_is_judged_by_the_clock_that_most_topics_share(tmp_path):
    """Played again a year later: no stamp is near its receipt, and all agree."""
    year_ms = 3.15e10
    wrong_ones = shifted(content(), JOINTS, lambda k: 40)
    again = [(name, receive_ns + round(year_ms * MS), m) for name, receive_ns, m in wrong_ones]
    path = write_bag(tmp_path / "b", again)
    flagged = run(path, tmp_path / "ds", config("flag"), task="pick")
    told = [note for note in flagged.notes if "clock" in note]
    assert [note.split(":")[0] for note in told] == [JOINTS]
    assert "up to 40.0 ms after the clock of most topics" in told[0]


# -- the recording machine's own clock ---------------------------------------------------------


def host_set(step_ms, at_ms=5000):
    """What is recorded where the one clock of all is set: stamps and receipts jump together."""
    moved = []
    for name, receive_ns, message in content():
        jump = step_ms if receive_ns >= START + at_ms * MS else 0
        (one,) = shifted([(name, receive_ns + jump * MS, message)], name, lambda _, jump=jump: jump)
        moved.append(one)
    step = HostStep(
        old_until_ns=START + at_ms * MS, new_from_ns=START + (at_ms + step_ms) * MS, step_ns=step_ms * MS
    )
    return moved, json.dumps([step.to_json()])


@pytest.mark.parametrize("step_ms", [1500, -160])
def test_a_step_of_the_recording_machines_clock_is_taken_back_or_told(step_ms, clean, tmp_path):
    moved, told = host_set(step_ms)
    known = custom(end_ms=SECONDS * 1000 + step_ms, clock_steps=told)
    path = write_bag(tmp_path / "b", moved, known)

    flagged = run(path, tmp_path / "flagged", config("flag", clock_step="flag"))
    (note,) = [n for n in flagged.notes if n.startswith("the recording machine's clock was set")]
    assert f"({step_ms:+.1f} ms), which is left as it is" in note

    outcome = run(path, tmp_path / "ds", config("flag", clock_step="correct"))
    assert outcome.status == "exported", outcome.reason
    rows, _, recording = dataset(tmp_path / "ds")
    assert recording["clock_steps"][0] | {"corrected": True} == recording["clock_steps"][0]
    moments = dict(zip(clean[0]["timestamp"], clean[0]["observation.arm_joint"], strict=True))
    kept = [t for t in rows["timestamp"] if t in moments]
    assert len(kept) == len(rows["timestamp"]) >= len(moments) - (0 if step_ms > 0 else 15)
    for when, joints in zip(rows["timestamp"], rows["observation.arm_joint"], strict=True):
        if step_ms > 0 or not 4.8 < when < 5.3:
            assert joints == moments[when]


def test_a_record_of_steps_that_is_none_is_one_error(tmp_path):
    path = bag(tmp_path / "b", content()[:30], clock_steps='[{"step_ns": "soon"}]')
    outcome = run(path, tmp_path / "ds", config("flag"))
    assert outcome.status == "failed"
    assert "clock_steps is no list of steps" in outcome.reason


def test_validate_names_a_step_and_what_an_export_would_do(tmp_path):
    path = bag(tmp_path / "b", wrong("steps"), session_config=dump_session(config("correct")))
    found = [(f.level, f.code, f.text) for f in validate_bag(path).findings]
    steps = [text for level, code, text in found if (level, code) == ("warning", "clock-step")]
    assert len(steps) == 2
    assert all("was set +700 ms, -1200 ms" in text for text in steps)
    done = [text for level, code, text in found if (level, code) == ("info", "clock-corrected")]
    assert sorted(text.split(":")[0] for text in done) == [
        "cameras.cam", "sources.arm_joint", "sources.gripper",
    ]  # fmt: skip
    refused = validate_bag(path, config("refuse"))
    assert ("error", "clocks-differ") in {(f.level, f.code) for f in refused.findings}


def test_a_bag_remembers_the_steps_of_its_recorder(tmp_path):
    moved, told = host_set(1500)
    with open_bag(bag(tmp_path / "b", moved, clock_steps=told)) as opened:
        (step,) = read_record(opened).clock_steps
    assert step.step_ns == 1500 * MS
