"""How x264 is told to encode the same frames to the same bytes."""

from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")


@cache
def steady_options() -> dict[str, str]:
    """Options of FFmpeg's ``libx264`` without which it would now and then encode the same frames differently.

    With AVX-512 up to 5 % of short videos of 64x48 came out with other bytes (x264 165, AMD Zen 4), never
    with AVX2, which every processor with AVX-512 has. The usual bytes are the same, and pictures of 640x480
    take 5 % less time.
    """
    try:
        flags = _CPUINFO.read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux
        return {}
    return {"x264-params": "asm=avx2"} if "avx512f" in flags.split() else {}
