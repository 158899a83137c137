"""The cameras' intrinsics over the episodes of a dataset, as ``extras/cameras.json`` keeps them.

By camera name a list of ``{"from_episode": N, "info": {...}}`` in rising order: the values hold from
that episode to the next entry. ``info`` is null from an episode on that has no intrinsics of a camera
that had some before.
"""

from collections.abc import Mapping, Sequence

from piper_collect.errors import DatasetError

CameraInfo = Mapping[str, object]


def merged_cameras(
    existing: Mapping[str, object] | None, episode_index: int, infos: Mapping[str, CameraInfo]
) -> dict[str, list[dict[str, object]]]:
    """The content of the file after an episode is appended.

    Args:
        existing: Content so far; None without a file.
        episode_index: The new episode's number, which is how many episodes there are before it.
        infos: JSON values by camera; a camera without intrinsics is left out.

    Raises:
        DatasetError: As ``infos_by_episode``.
    """
    content: dict[str, list[dict[str, object]]] = {
        camera: [
            {"from_episode": start, "info": info}
            for start, info in _entries(camera, entries)
            if start < episode_index
        ]
        for camera, entries in (existing or {}).items()
    }
    for camera in dict.fromkeys([*content, *infos]):
        entries, info = content.setdefault(camera, []), infos.get(camera)
        if (entries[-1]["info"] if entries else None) != info:
            entries.append({"from_episode": episode_index, "info": info})
    return dict(sorted((camera, entries) for camera, entries in content.items() if entries))


def infos_by_episode(existing: Mapping[str, object] | None, episodes: int) -> list[dict[str, CameraInfo]]:
    """The intrinsics by camera of each of the first ``episodes`` episodes, out of the file's content.

    Raises:
        DatasetError: The content is not what ``cameras_content`` makes.
    """
    found: list[dict[str, CameraInfo]] = [{} for _ in range(episodes)]
    for camera, entries in (existing or {}).items():
        starts = _entries(camera, entries)
        ends = [start for start, _ in starts[1:]] + [episodes]
        for (start, info), end in zip(starts, ends, strict=True):
            for index in range(start, min(end, episodes)):
                if info is not None:
                    found[index][camera] = info
    return found


def cameras_content(infos: Sequence[Mapping[str, CameraInfo]]) -> dict[str, list[dict[str, object]]]:
    """The content of the file for episodes 0, 1, … with these intrinsics by camera.

    Cameras are sorted by name. A new entry begins only where the values change; the inverse of
    ``infos_by_episode``.
    """
    content: dict[str, list[dict[str, object]]] = {}
    newest: dict[str, CameraInfo | None] = {}
    for index, by_camera in enumerate(infos):
        for camera in dict.fromkeys([*newest, *by_camera]):
            info = by_camera.get(camera)
            if camera in newest and (newest[camera] is info or newest[camera] == info):
                continue
            newest[camera] = info
            content.setdefault(camera, []).append({"from_episode": index, "info": info})
    return dict(sorted(content.items()))


def _entries(camera: str, entries: object) -> list[tuple[int, CameraInfo | None]]:
    found: list[tuple[int, CameraInfo | None]] = []
    for entry in entries if isinstance(entries, Sequence) and entries else (None,):
        known = entry if isinstance(entry, Mapping) else {}
        start, info = known.get("from_episode"), known.get("info", "")
        before = found[-1][0] if found else -1
        if not isinstance(start, int) or start <= before or not isinstance(info, Mapping | None):
            raise DatasetError(
                "the intrinsics of a camera cannot be read",
                where=f"extras/cameras.json, {camera}",
                expected="entries of from_episode, rising, and info",
                got=entry,
            )
        found.append((start, info))
    return found
