"""Faults to put into a good dataset, and what is then found in it."""

import numpy as np
import pyarrow as pa
from dataset_edits import edit_column, edit_info, edit_json, edit_line, edit_table, rewrite_video, video_path

from piper_collect.pipelines.validate import validate_dataset


def found(root):
    """Code and text of everything but information."""
    report = validate_dataset(root).report
    return [(f.code, f"{f.where}: {f.text}") for f in report.findings if f.level != "info"]


def check(root, codes, words):
    """These codes are found and no others, and these words are said."""
    seen = found(root)
    assert sorted({code for code, _ in seen}) == sorted(codes), seen
    for word in words:
        assert any(word in text for _, text in seen), (word, seen)


def info(change):
    return lambda root: edit_info(root, change)


def line(name, change, number=0):
    return lambda root: edit_line(root, name, number, change)


def column(key, change):
    return lambda root: edit_column(root, key, change)


def stats(change):
    return lambda root: edit_json(root / "meta/stats.json", change)


def feature(key, **changes):
    return info(lambda d: d["features"][key].update(changes))


def with_cells(key, change, kind=None):
    """Replace the cells of a column by a list made of them, of another type where one is given."""

    def spoil(root):
        def changed(table):
            at = table.column_names.index(key)
            cells = pa.array(change(table[key].to_pylist()), kind or table.schema.field(key).type)
            return table.set_column(at, key, cells)

        edit_table(root, changed)

    return spoil


def video(change):
    """Encode the front camera's video anew from what ``change`` makes of its (PTS, picture) pairs."""
    return lambda root: rewrite_video(video_path(root), change)


def drop_frames(root, key, which):
    rewrite_video(video_path(root, key), lambda frames: [f for i, f in enumerate(frames) if i not in which])


def spin(cells):
    """Quaternions wxyz to xyzw."""
    cells[:, 3:] = np.roll(cells[:, 3:], -1, axis=1)
