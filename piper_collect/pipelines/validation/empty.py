"""A dataset without an episode: a state that is in order, and of no use to a trainer."""

from piper_collect.core.findings import Findings
from piper_collect.core.overview import NO_EPISODE


def tell_empty(findings: Findings) -> None:
    """Say that there is no episode; of statistics and consumers there is then nothing to say."""
    findings.add("error", "empty", "dataset", NO_EPISODE)
