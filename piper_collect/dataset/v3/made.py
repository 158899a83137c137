"""An episode on its way into the files of a v3.0 dataset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from piper_collect.dataset.dialect import VideoClip
from piper_collect.dataset.encode import EncodedVideo


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeEpisode:
    """An episode that is made, and not yet in a file of the dataset.

    Attributes:
        table: Its rows.
        clips: Its videos by key.
        videos: What became of the frames, by camera name.
        entries: Its statistics by feature.
        source: Its line of episode_sources.jsonl.
        picture_keys: Features of which there are statistics of pictures.
    """

    table: pa.Table
    clips: Mapping[str, VideoClip]
    videos: Mapping[str, EncodedVideo]
    entries: Mapping[str, Mapping[str, Any]]
    source: Mapping[str, Any]
    picture_keys: tuple[str, ...] = ()
