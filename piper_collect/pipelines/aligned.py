"""A bag's streams, aligned to the columns of a profile."""

from piper_collect.bag.episode import first_frames
from piper_collect.bag.reader import BagReader
from piper_collect.config.column_spec import ColumnSpec
from piper_collect.config.names import depth_topic, image_topic, resolve_topic
from piper_collect.config.profile import Profile
from piper_collect.config.schema import SessionConfig
from piper_collect.core.align import align
from piper_collect.core.types import AlignPolicy, Episode, RawEpisode, Stream, depth_name
from piper_collect.errors import BagError, ConfigError, ImageError
from piper_collect.imaging.depth import to_millimetres
from piper_collect.imaging.frames import frame_size

_MS = 1e6


def picture_topics(config: SessionConfig) -> dict[str, str]:
    """Absolute topics of the cameras' images, and of their depth images by ``depth_name``."""
    topics = {name: image_topic(name, camera) for name, camera in config.cameras.items()}
    depths = {depth_name(n): depth_topic(c) for n, c in config.cameras.items() if depth_topic(c)}
    return {n: resolve_topic(t, config.session.namespace) for n, t in (topics | depths).items()}


def picture_sizes(
    bag: BagReader, config: SessionConfig, *, depth: bool
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """(height, width) of the first frame of each camera, and of its depth images.

    Args:
        bag: The opened bag.
        config: Which topics are the cameras'.
        depth: Whether depth images are asked for.

    Returns:
        By camera name, and by ``depth_name``; what is optional and has no frames is left out.

    Raises:
        BagError: A required topic has no messages.
        ImageError: A first frame is no image that becomes video, or no depth image.
    """
    sizes, depths, topics = {}, {}, picture_topics(config)
    for name, frame in first_frames(bag, config, depth=depth).items():
        try:
            if name in config.cameras:
                sizes[name] = frame_size(frame)
            else:
                height, width = to_millimetres(frame).shape
                depths[name] = (height, width)
        except ImageError as err:
            topic = topics[name]
            raise ImageError(
                err.what,
                where=f"{topic} (camera {name}): {err.where}",
                expected=err.expected,
                got=err.got,
                hint=err.hint,
                valid=err.valid,
            ) from err
    return sizes, depths


def align_by_profile(raw: RawEpisode, config: SessionConfig, profile: Profile) -> Episode:
    """Align an episode to the columns of a profile, each source sampled as the configuration says.

    Raises:
        ConfigError: A column has no source, or its source has another number of elements.
        AlignmentError: As ``align``.
    """
    settings = {**config.cameras, **{depth_name(n): c for n, c in config.cameras.items()}}
    policies = {c.source: _policy(raw, config, profile.name, c) for c in profile.columns if c.source}
    cameras = {name: settings[name] for name in raw.cameras}
    by_row = {n for n, c in raw.cameras.items() if c.is_depth or profile.video.timing == "row"}
    return align(
        raw,
        row_clock=profile.row_clock,
        fps=config.session.fps,
        action_source=profile.action_source,
        policies=policies,
        camera_max_age_ns={name: round(c.max_age_ms * _MS) for name, c in cameras.items()},
        required_cameras=[n for n, c in cameras.items() if c.required or n in by_row],
        on_gap=profile.on_gap,
    )


def _policy(raw: RawEpisode, config: SessionConfig, profile: str, column: ColumnSpec) -> AlignPolicy:
    settings, stream = config.sources.get(column.source), raw.streams.get(column.source)
    if settings is None:
        raise ConfigError(
            f"column {column.key} needs a source that is not configured",
            where=f"profile {profile}",
            got=column.source,
            valid=config.sources,
            hint="add it to sources of the session's configuration (--config), or take another profile",
        )
    if stream is None:
        raise BagError(f"no messages on {settings.topic} (needed for column {column.key})", where=raw.name)
    _check_fits(raw.name, stream, column)
    return AlignPolicy(
        sampling=settings.sampling,
        max_age_ns=round(settings.max_age_ms * _MS),
        required=settings.required,
        rotation=column.rotation,
    )


def _check_fits(episode: str, stream: Stream, column: ColumnSpec) -> None:
    if column.shape and stream.shape and stream.shape != column.shape:
        raise ConfigError(
            f"source {column.source} does not fill column {column.key}",
            where=episode,
            expected=f"arrays of {list(column.shape)}",
            got=list(stream.shape),
        )
    if stream.values.shape[1] != column.width:
        raise ConfigError(
            f"source {column.source} does not fill column {column.key}",
            where=episode,
            expected=f"{column.width} elements ({', '.join(column.names)})",
            got=stream.values.shape[1],
        )
