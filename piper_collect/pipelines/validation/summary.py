"""Numbers about the whole dataset, gathered episode by episode in space that does not grow."""

from dataclasses import dataclass, field

import numpy as np

from piper_collect.core.survey import EpisodeSurvey
from piper_collect.core.types import FloatArray


@dataclass(slots=True)
class Spread:
    """Mean, least and greatest of the numbers taken so far; NaN is none."""

    count: int = 0
    total: float = 0.0
    least: float = np.inf
    most: float = -np.inf

    def add(self, values: FloatArray | float) -> None:
        """Take numbers."""
        known = np.atleast_1d(np.asarray(values, dtype=np.float64))
        known = known[np.isfinite(known)]
        if known.size:
            self.count += known.size
            self.total += float(known.sum())
            self.least = min(self.least, float(known.min()))
            self.most = max(self.most, float(known.max()))

    def to_json(self) -> dict[str, float]:
        """Rounded to what can be meant; only when something was taken."""
        rounded = {"mean": self.total / self.count, "min": self.least, "max": self.most}
        return {name: round(value, 6) for name, value in rounded.items()}


@dataclass(slots=True)
class Summary:
    """What ``facts`` of the report says of all episodes together."""

    episodes: int = 0
    rows: int = 0
    duration_s: float = 0.0
    spreads: dict[str, Spread] = field(default_factory=dict)
    variants: set[str] = field(default_factory=set)

    def add(self, survey: EpisodeSurvey) -> None:
        """Take one episode."""
        self.rows += survey.rows
        self.duration_s += survey.duration_s
        self._spread("step_ms", survey.step_ms)
        for key, camera in survey.cameras.items():
            self._spread(f"gap_ms.{key.rpartition('.')[2]}", camera.gap_ms)
        for name, age_ms in survey.age_ms.items():
            self._spread(f"age_ms.{name}", age_ms)
        self._spread("skew_ms", survey.skew_ms)
        if survey.lag is not None:
            self._spread("lag_ms", survey.lag.lag_ms)
        if survey.kinematics is not None:
            self._spread("kinematics_mm", survey.kinematics.median_mm)
            self.variants.add(survey.kinematics.variant)

    def _spread(self, name: str, values: FloatArray | float) -> None:
        self.spreads.setdefault(name, Spread()).add(values)

    def to_json(self) -> dict[str, object]:
        """JSON values; what was never measured is left out."""
        measured = {name: spread.to_json() for name, spread in self.spreads.items() if spread.count}
        variants = {"dh_variants": sorted(self.variants)} if self.variants else {}
        return {"duration_s": round(self.duration_s, 3), "measured": measured, **variants}
