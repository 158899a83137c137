"""From raw streams to rows: T0, the ticks of an episode, and each source's value at every tick."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from piper_collect.core.sampling import Samples, held_where_stale, kept, prepare, select, take, tick_offsets
from piper_collect.core.types import (
    NO_SAMPLE,
    AlignPolicy,
    BoolArray,
    CameraStream,
    Episode,
    EpisodeCamera,
    FloatArray,
    GapPolicy,
    RawEpisode,
    RowClock,
    RowSamples,
    StampArray,
    Stream,
)
from piper_collect.errors import AlignmentError

_NS_PER_S = 1e9


def align(
    raw: RawEpisode,
    *,
    row_clock: RowClock,
    fps: float,
    action_source: str,
    policies: Mapping[str, AlignPolicy],
    camera_max_age_ns: Mapping[str, int],
    required_cameras: Iterable[str],
    on_gap: GapPolicy,
) -> Episode:
    """Align an episode: one row a tick, every source sampled under its policy.

    Only samples stamped inside ``[raw.start_ns, raw.end_ns]`` count. T0 is the first stamp of the action
    source there at which every source of ``policies`` and every required camera has a value: one not
    after the tick and no older than its greatest age. Slot k is ``[T0 + round(k*1e9/fps),
    T0 + round((k+1)*1e9/fps))``, up to the action source's last stamp.

    Args:
        raw: The streams and cameras of one bag.
        row_clock: ``action``: a slot's row is the first action stamp in it, none being a gap;
            ``grid``: its row is its start.
        fps: Slots a second; taken as the decimal it is written as.
        action_source: Source whose stamps make the ticks.
        policies: How each source of the dataset is sampled; all of them are needed at every row.
        camera_max_age_ns: Greatest age of the newest frame at a row, for every camera of the dataset.
        required_cameras: Cameras without whose fresh frame there is no row.
        on_gap: ``drop_row`` leaves out rows that lack a fresh value and counts them; ``hold`` keeps them
            with the newest value, marked and counted; ``refuse`` raises.

    Returns:
        The episode; its ``counts`` obey ``slots = rows + gaps + dropped``.

    Raises:
        AlignmentError: A source is missing or holds values that are not finite or not rotations, there
            is no common T0, or a slot has no row under ``refuse``.
    """
    inside = _Inside.of(raw, policies, camera_max_age_ns, frozenset(required_cameras))
    if action_source not in inside.streams:
        raise AlignmentError(
            "the action source is not sampled", where=raw.name, got=action_source, valid=inside.streams
        )
    action_ns = inside.streams[action_source].stamp_ns
    t0_ns = _find_t0(raw, inside, action_ns)
    candidates, slots, gap_ns = _candidate_ticks(t0_ns, action_ns, row_clock, fps)
    fresh = inside.fresh(candidates)
    whole = _all_of(list(fresh.values())) if on_gap != "hold" else np.ones(len(candidates), dtype=np.bool_)
    if on_gap == "refuse":
        _refuse_gaps(raw.name, t0_ns, gap_ns, candidates, fresh)
    tick_ns = candidates[whole]
    half_period_ns = round(_NS_PER_S / (2 * fps))
    cameras, camera_counts = inside.trim_cameras(raw, t0_ns, int(tick_ns[-1]) + half_period_ns)
    columns, samples, ages = inside.sample(tick_ns)
    counts = _row_counts(slots, len(gap_ns), whole, fresh) | inside.counts(t0_ns, action_ns, fps)
    if on_gap == "hold":
        counts["held_by_source"] = {k: int(np.count_nonzero(~ok)) for k, ok in fresh.items() if not ok.all()}
        counts["dropped_by_source"] = {}
    return Episode(
        name=raw.name,
        t0_ns=t0_ns,
        tick_ns=tick_ns,
        columns=columns,
        samples=samples,
        cameras=cameras,
        task=raw.task,
        counts={**counts, "frames": camera_counts, "age_ms": ages},
        provenance=raw.provenance,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inside:
    """The samples stamped inside the episode."""

    streams: Mapping[str, Stream]
    policies: Mapping[str, AlignPolicy]
    frames: Mapping[str, StampArray]
    frame_policies: Mapping[str, AlignPolicy]
    required_cameras: frozenset[str]
    outside: Mapping[str, int]

    @classmethod
    def of(
        cls,
        raw: RawEpisode,
        policies: Mapping[str, AlignPolicy],
        camera_max_age_ns: Mapping[str, int],
        required_cameras: frozenset[str],
    ) -> "_Inside":
        _check_names(raw, policies, camera_max_age_ns, required_cameras)
        streams, frames, outside = {}, {}, {}
        for key, policy in policies.items():
            stream = raw.streams[key]
            keep = _between(stream.stamp_ns, raw.start_ns, raw.end_ns)
            outside[key] = int(np.count_nonzero(~keep))
            streams[key] = prepare(_cut(stream, keep), policy)
        for key in camera_max_age_ns:
            stamps = raw.cameras[key].stamp_ns
            keep = _between(stamps, raw.start_ns, raw.end_ns)
            outside[key] = int(np.count_nonzero(~keep))
            frames[key] = np.sort(stamps[keep])
        return cls(
            streams=streams,
            policies=policies,
            frames=frames,
            frame_policies={
                k: AlignPolicy(sampling="hold", max_age_ns=int(v)) for k, v in camera_max_age_ns.items()
            },
            required_cameras=required_cameras,
            outside={k: n for k, n in outside.items() if n},
        )

    def counts(self, t0_ns: int, action_ns: StampArray, fps: float) -> dict[str, object]:
        """What was left out before any row was made."""
        return {
            "ticks_before_t0": int(np.searchsorted(action_ns, t0_ns)),
            "rows_before_t0": int((t0_ns - int(action_ns[0])) * fps / _NS_PER_S),
            "outside_episode": dict(self.outside),
            "messages_dropped": {k: dict(s.dropped) for k, s in self.streams.items() if s.dropped},
        }

    def fresh(self, tick_ns: StampArray) -> dict[str, BoolArray]:
        """Whether each needed source and camera has a value at each tick."""
        found = {k: select(s.stamp_ns, tick_ns, self.policies[k]).fresh for k, s in self.streams.items()}
        for camera in self.frames:
            if camera in self.required_cameras:
                found[camera] = self.shown(camera, tick_ns).fresh
        return found

    def shown(self, camera: str, tick_ns: StampArray) -> Samples:
        """The frame of ``camera`` shown at each tick."""
        return select(self.frames[camera], tick_ns, self.frame_policies[camera])

    def ready(self, tick_ns: StampArray) -> BoolArray:
        """Ticks at which all is fresh, and not only thanks to samples after them."""
        found = list(self.fresh(tick_ns).values())
        for key, stream in self.streams.items():
            found.append(select(stream.stamp_ns, tick_ns, replace(self.policies[key], sampling="hold")).fresh)
        return _all_of(found)

    def sample(
        self, tick_ns: StampArray
    ) -> tuple[dict[str, FloatArray], dict[str, RowSamples], dict[str, dict[str, float]]]:
        """Columns, the samples that each row shows, and ages in ms."""
        columns, samples, ages = {}, {}, {}
        for key, stream in self.streams.items():
            policy = self.policies[key]
            chosen = select(stream.stamp_ns, tick_ns, policy)
            chosen = held_where_stale(stream.stamp_ns, tick_ns, chosen)
            columns[key] = take(stream, tick_ns, chosen, policy)
            samples[key] = RowSamples(stamp_ns=stream.stamp_ns[chosen.before], stale=~chosen.fresh)
            ages[key] = _age_summary(chosen.age_ns)
        for camera, stamps in self.frames.items():
            shown = self.shown(camera, tick_ns)
            if not len(stamps):
                missing = np.full(len(tick_ns), NO_SAMPLE, dtype=np.int64)
                samples[camera] = RowSamples(stamp_ns=missing, stale=~shown.fresh)
                continue
            seen = stamps[shown.before] <= tick_ns
            stamp_ns = np.where(seen, stamps[shown.before], NO_SAMPLE)
            samples[camera] = RowSamples(stamp_ns=stamp_ns, stale=~shown.fresh)
            if seen.any():
                ages[camera] = _age_summary(shown.age_ns[seen])
        return columns, samples, ages

    def trim_cameras(
        self, raw: RawEpisode, t0_ns: int, last_ns: int
    ) -> tuple[dict[str, EpisodeCamera], dict[str, dict[str, int]]]:
        """Cameras cut to ``[t0_ns, last_ns]`` (no later than the episode's end), and what was cut."""
        cut, counts, last_ns = {}, {}, min(last_ns, raw.end_ns)
        for name, stamps in self.frames.items():
            before = int(np.searchsorted(stamps, t0_ns))
            after = len(stamps) - int(np.searchsorted(stamps, last_ns, side="right"))
            cut[name] = EpisodeCamera(
                stream=raw.cameras[name],
                first_ns=t0_ns,
                last_ns=last_ns,
                trimmed_before=before,
                trimmed_after=after,
            )
            counts[name] = {
                "kept": len(stamps) - before - after,
                "trimmed_before": before,
                "trimmed_after": after,
            }
        return cut, counts


def _check_names(
    raw: RawEpisode,
    policies: Mapping[str, AlignPolicy],
    cameras: Mapping[str, int],
    required_cameras: frozenset[str],
) -> None:
    for name, has, needed in (
        ("source", raw.streams, policies),
        ("camera", raw.cameras, cameras),
        ("camera", cameras, required_cameras),
    ):
        for key in needed:
            if key not in has:
                raise AlignmentError(
                    f"the episode has no {name} of this name", where=raw.name, got=key, valid=has
                )
    for key in policies:
        if key in cameras:
            raise AlignmentError("a source and a camera have the same name", where=raw.name, got=key)


def _all_of(flags: list[BoolArray]) -> BoolArray:
    every: BoolArray = np.logical_and.reduce(flags)
    return every


def _between(stamp_ns: StampArray, first_ns: int, last_ns: int) -> BoolArray:
    return (stamp_ns >= first_ns) & (stamp_ns <= last_ns)


def _cut(stream: Stream, keep: BoolArray) -> Stream:
    return replace(
        stream,
        stamp_ns=kept(stream.stamp_ns, keep),
        receive_ns=kept(stream.receive_ns, keep),
        values=kept(stream.values, keep),
    )


def _find_t0(raw: RawEpisode, inside: _Inside, action_ns: StampArray) -> int:
    ready = np.flatnonzero(inside.ready(action_ns)) if len(action_ns) else np.empty(0, dtype=np.int64)
    if ready.size:
        return int(action_ns[ready[0]])
    stamps: dict[str, StampArray] = {k: s.stamp_ns for k, s in inside.streams.items()}
    stamps |= {k: v for k, v in inside.frames.items() if k in inside.required_cameras}
    spans = ", ".join(f"{key} {_span(raw, key, kept)}" for key, kept in stamps.items())
    raise AlignmentError(
        "there is no tick at which every source has a fresh value",
        where=raw.name,
        got=f"seconds after the start of {(raw.end_ns - raw.start_ns) / _NS_PER_S:.3f} s: {spans}",
        hint="a source without samples, or with a span apart from the others, is the one to look at",
    )


def _span(raw: RawEpisode, key: str, kept: StampArray) -> str:
    if len(kept):
        first, last = ((int(t) - raw.start_ns) / _NS_PER_S for t in (kept[0], kept[-1]))
        return f"{first:.3f} to {last:.3f}"
    stream: Stream | CameraStream = raw.streams[key] if key in raw.streams else raw.cameras[key]
    if not len(stream.stamp_ns):
        return "no samples"
    first, last = (
        (int(t) - raw.start_ns) / _NS_PER_S for t in (stream.stamp_ns.min(), stream.stamp_ns.max())
    )
    return f"none inside (stamps {first:.3f} to {last:.3f})"


def _candidate_ticks(
    t0_ns: int, action_ns: StampArray, row_clock: RowClock, fps: float
) -> tuple[StampArray, int, StampArray]:
    """Ticks that may become rows, the number of slots, and the starts of the slots without a tick."""
    last_ns = int(action_ns[-1])
    edges = t0_ns + tick_offsets(fps, int((last_ns - t0_ns) * fps / _NS_PER_S) + 3)
    slots = int(np.searchsorted(edges, last_ns, side="right"))
    starts, ends = edges[:slots], edges[1 : slots + 1]
    if row_clock == "grid":
        return starts, slots, starts[:0]
    first = np.searchsorted(action_ns, starts)
    ticks = action_ns[np.minimum(first, len(action_ns) - 1)]
    has = ticks < ends
    return ticks[has], slots, starts[~has]


def _row_counts(slots: int, gaps: int, whole: BoolArray, fresh: Mapping[str, BoolArray]) -> dict[str, object]:
    return {
        "slots": slots,
        "rows": int(np.count_nonzero(whole)),
        "gaps": gaps,
        "dropped": int(np.count_nonzero(~whole)),
        "dropped_by_source": {k: int(np.count_nonzero(~ok)) for k, ok in fresh.items() if not ok.all()},
    }


def _refuse_gaps(
    name: str, t0_ns: int, gap_ns: StampArray, ticks: StampArray, fresh: Mapping[str, BoolArray]
) -> None:
    lacking = {key: ticks[~ok] for key, ok in fresh.items() if not ok.all()}
    if len(gap_ns):
        lacking["the action's ticks"] = gap_ns
    if lacking:
        parts = [
            f"{key} at {len(where)} rows, first {(int(where[0]) - t0_ns) / _NS_PER_S:.3f} s after T0"
            for key, where in lacking.items()
        ]
        raise AlignmentError(
            "rows lack a fresh value, and gaps are refused", where=name, got="; ".join(parts)
        )


def _age_summary(age_ns: StampArray) -> dict[str, float]:
    return {"max": float(age_ns.max()) / 1e6, "median": float(np.median(age_ns)) / 1e6}
