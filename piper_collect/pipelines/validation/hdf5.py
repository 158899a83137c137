"""Judges datasets of HDF5 cases: lists against files, fields against rows, videos against both."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from piper_collect.core.findings import Findings
from piper_collect.core.types import FloatArray
from piper_collect.dataset.hdf5.fields import CaseFields, case_fields, is_on_grid
from piper_collect.dataset.hdf5.files import opened
from piper_collect.dataset.hdf5.layout import CASES, case_of
from piper_collect.dataset.hdf5.reader import HDF5CasesReader
from piper_collect.dataset.json_files import read_jsonl
from piper_collect.dataset.layout import EPISODES, INFO, META, SOURCES, STAGING
from piper_collect.dataset.parquet import BOOKKEEPING, TIMESTAMP, column_values
from piper_collect.dataset.remux import clip_facts, clip_times
from piper_collect.errors import DatasetError

_INFO, _EPISODES = f"{META}/{INFO}", f"{META}/{EPISODES}"


def check_lists(reader: HDF5CasesReader, findings: Findings) -> None:
    """What can be said before an HDF5 file is opened."""
    if (reader.root / STAGING).exists():
        text = "an interrupted save was left here; the next command that changes the dataset repairs it"
        findings.add("error", "interrupted-save", STAGING, text)
    lines = list(reader.episodes.values())
    totals = {
        "total_episodes": len(lines),
        "total_frames": sum(line["length"] for line in lines),
        "total_tasks": len(reader.tasks),
        "total_cases": len({case_of(line) for line in lines}),
    }
    for key, count in totals.items():
        if reader.info.get(key) != count:
            text = f"{key} is {reader.info.get(key)}, the other files say {count}"
            findings.add("error", "totals", _INFO, text)
    for key in ("episode_id", "hdf5_path"):
        if len({line.get(key) for line in lines}) != len(lines):
            findings.add("error", "episode-numbers", _EPISODES, f"{key} is not one of each episode alone")
    if reader.sources and list(reader.sources) != list(reader.episodes):
        text = f"{len(reader.sources)} lines for {len(lines)} episodes"
        findings.add("error", "sources", f"{META}/{SOURCES}", text)
    missing = [key for key in BOOKKEEPING if key not in reader.info["features"]]
    if missing:
        findings.add("error", "features", _INFO, f"has no feature {', '.join(missing)}")
    _check_cases(reader, findings)


def _check_cases(reader: HDF5CasesReader, findings: Findings) -> None:
    """The lists of the cases are parts of the list of all."""
    cases = {case_of(line): None for line in reader.episodes.values()}
    try:
        listed = [line.get("case_id") for line in read_jsonl(reader.root / META / CASES)] if cases else []
    except DatasetError as err:
        findings.add("error", "cases", f"{META}/{CASES}", str(err))
        return
    if listed != [case.folder for case in cases]:
        text = f"lists {len(listed)} cases, the episodes lie in {len(cases)}"
        findings.add("error", "cases", f"{META}/{CASES}", text)
    for case in cases:
        own = [line for line in reader.episodes.values() if case_of(line) == case]
        try:
            there = sorted(read_jsonl(reader.root / case.index), key=lambda line: str(line.get("episode_id")))
        except DatasetError as err:
            findings.add("error", "cases", case.index, str(err))
            continue
        if there != sorted(own, key=lambda line: str(line.get("episode_id"))):
            findings.add("error", "cases", case.index, f"is not what {_EPISODES} says of the case")
        if not (reader.root / case.config).is_file():
            findings.add("error", "cases", case.config, "the file is missing")


def check_rows(reader: HDF5CasesReader, index: int, table: pa.Table, findings: Findings) -> FloatArray:
    """Check the rows of an episode; gives their times in seconds, float64 [T]."""
    where = f"episode {index}"
    for key, feature in reader.info["features"].items():
        if feature["dtype"] == "video":
            continue
        values, at = column_values(table, key), f"{where}, column {key}"
        if values.shape[1] != feature["shape"][0]:
            text = f"{values.shape[1]} elements, info.json says {feature['shape'][0]}"
            findings.add("error", "shape", at, text)
        if str(values.dtype) != feature["dtype"]:
            findings.add("error", "dtype", at, f"{values.dtype}, info.json says {feature['dtype']}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            rows = int(np.count_nonzero(~np.isfinite(values).all(axis=1)))
            findings.add("error", "not-finite", at, f"{rows} rows are not finite")
    row_s: FloatArray = column_values(table, TIMESTAMP)[:, 0].astype(np.float64)
    if not is_on_grid(row_s, reader.fps):
        text = "rows do not lie at k/fps, the only times that readers of the format know"
        findings.add("error", "timestamps", where, text)
    return row_s


def check_fields(reader: HDF5CasesReader, index: int, table: pa.Table, findings: Findings) -> None:
    """Check the fields of an episode's file against its rows.

    Raises:
        DatasetError: The file cannot be read, or lacks a field.
    """
    where, line = f"episode {index}", reader.episodes[index]
    fields = case_fields(table, reader.info["features"])
    with opened(reader.data_path(index)) as file:
        for name, told in (("fps", reader.fps), ("frame_count", len(table))):
            if file.attrs[name] != told:
                text = f"the attribute {name} is {file.attrs[name]}, expected {told:g}"
                findings.add("error", "attributes", where, text)
        if file["language_instruction"].asstr()[()] != line["instruction"]:
            findings.add("error", "tasks", where, f"language_instruction is not that of {_EPISODES}")
        for name, values in _expected(fields).items():
            if not np.array_equal(file[name][()], values):
                findings.add("error", "fields", where, f"{name} does not follow from the rows")
        for name, names in _expected_names(fields).items():
            if tuple(file[name].asstr()[()]) != names:
                findings.add("error", "fields", where, f"{name} are not the names of its columns")
        if "ee_pose_valid" in file:
            _check_valid(file["ee_pose_valid"], len(table), where, findings)


def _expected(fields: CaseFields) -> Mapping[str, Any]:
    width = len(fields.names)
    found = {
        "agent_pose": fields.joint_positions,
        "joint_positions": fields.joint_positions,
        "actions": fields.actions,
        "agent_pose_indices": np.arange(width),
        "arm_joint_indices": np.arange(fields.arm_joints),
        "gripper_indices": np.arange(fields.arm_joints, width),
    }
    if fields.pose is None:
        return found
    known = {} if fields.pose.valid is None else {"ee_pose_valid": fields.pose.valid}
    return {**found, "ee_pose": fields.pose.values, **known}


def _expected_names(fields: CaseFields) -> Mapping[str, tuple[str, ...]]:
    found = dict.fromkeys(("agent_pose_names", "joint_position_names"), fields.names)
    return found if fields.pose is None else {**found, "ee_pose_names": fields.pose.names}


def _check_valid(flags: Any, rows: int, where: str, findings: Findings) -> None:
    if flags.shape != (rows,) or flags.dtype != np.bool_:
        findings.add("error", "fields", where, f"ee_pose_valid is not one flag for each of {rows} rows")
        return
    stale = int(np.count_nonzero(~flags[()]))
    if stale:
        findings.add("warning", "pose", where, f"ee_pose is not valid in {stale} of {rows} rows")


def check_video(
    reader: HDF5CasesReader, index: int, key: str, row_s: FloatArray, findings: Findings, *, decode: bool
) -> FloatArray:
    """Check a video: H.264, one frame a row at its time, of the size told; gives its PTS in seconds.

    Raises:
        DatasetError: It cannot be read or decoded.
    """
    where = f"episode {index}, {key}"
    clip = reader.clip(index, key)
    codec, pts_s = str(clip_facts(clip).coded[0]), clip_times(clip)
    if codec != "h264":
        findings.add("error", "video", where, f"the codec is {codec}, expected h264")
    if len(pts_s) != len(row_s):
        findings.add("error", "frames", where, f"{len(pts_s)} frames for {len(row_s)} rows")
    elif not is_on_grid(pts_s, reader.fps):
        findings.add("error", "frames", where, "frames do not lie at k/fps, where their rows are")
    if decode:
        shape, count = tuple(reader.info["features"][key]["shape"]), 0
        for _, picture in reader.frames(index, key):
            count += 1
            if picture.shape != shape:
                raise DatasetError("a picture has another size", expected=shape, got=picture.shape)
        if count != len(pts_s):
            findings.add("error", "frames", where, f"{count} of {len(pts_s)} frames can be decoded")
    return pts_s
