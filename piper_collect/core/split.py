"""Cutting a long episode into several."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from piper_collect.core.types import Episode, EpisodeCamera, FloatArray, RowSamples


def split_episode(episode: Episode, max_rows: int, pose_sources: Iterable[str] = ()) -> tuple[Episode, ...]:
    """Parts of at most ``max_rows`` rows, as equal in length as can be; one part is the episode itself.

    Each part has its own T0, its first row. A frame belongs to the part in whose time it was taken.

    Args:
        episode: What is cut; not a part itself.
        max_rows: At least 1.
        pose_sources: Sources whose values are pose7; their quaternions start with w >= 0 in each part.

    Raises:
        ValueError: ``max_rows`` is less.
    """
    if max_rows < 1:
        raise ValueError(f"a part needs at least one row (got max_rows {max_rows})")
    parts = -(-episode.length // max_rows)
    if parts <= 1:
        return (episode,)
    edges = [k * episode.length // parts for k in range(parts + 1)]
    poses = frozenset(pose_sources)
    return tuple(_part(episode, k, parts, edges[k], edges[k + 1], poses) for k in range(parts))


def _part(episode: Episode, part: int, parts: int, first: int, end: int, poses: frozenset[str]) -> Episode:
    rows = slice(first, end)
    t0_ns = int(episode.tick_ns[first])
    last = part == parts - 1
    cameras = {}
    for name, camera in episode.cameras.items():
        last_ns = camera.last_ns if last else int(episode.tick_ns[end]) - 1
        cameras[name] = _cut(camera, t0_ns if part else camera.first_ns, last_ns, part == 0, last)
    return replace(
        episode,
        name=f"{episode.name} part {part + 1}/{parts}",
        t0_ns=t0_ns,
        tick_ns=episode.tick_ns[rows],
        columns={k: _signed(v[rows]) if k in poses else v[rows] for k, v in episode.columns.items()},
        samples=_cut_samples(episode.samples, rows),
        cameras=cameras,
        part=part,
        parts=parts,
    )


def _signed(poses: FloatArray) -> FloatArray:
    """Rotations (the last four elements) with the sign that makes the first w >= 0."""
    if poses[0, -4] >= 0:
        return poses
    turned = poses.copy()
    turned[:, -4:] *= -1.0
    return turned


def _cut(camera: EpisodeCamera, first_ns: int, last_ns: int, is_first: bool, is_last: bool) -> EpisodeCamera:
    """Only the outer parts have what the whole episode left out."""
    return replace(
        camera,
        first_ns=first_ns,
        last_ns=last_ns,
        trimmed_before=camera.trimmed_before if is_first else 0,
        trimmed_after=camera.trimmed_after if is_last else 0,
    )


def _cut_samples(samples: Mapping[str, RowSamples], rows: slice) -> dict[str, RowSamples]:
    return {k: RowSamples(stamp_ns=s.stamp_ns[rows], stale=s.stale[rows]) for k, s in samples.items()}
