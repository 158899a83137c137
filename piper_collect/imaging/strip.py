"""The test strip: a row of black and white cells by which a simulated picture says when it was taken.

40 cells along the top edge, each a fortieth of the width wide and two such widths high, most
significant bit first: capture stamp in ms modulo 2^24 (24 bits), camera number (4), frame number modulo
16 (4), and a CRC-8 (polynomial 0x07) of the 32 bits before it. The cells are large enough to survive
JPEG and x264.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CELLS = 40
STAMP_MODULO_MS = 1 << 24
_CAMERAS = 16
_FRAMES = 16
_CRC_POLYNOMIAL = 0x07


@dataclass(frozen=True, slots=True, kw_only=True)
class StripReading:
    """What a strip says.

    Attributes:
        stamp_ms: Capture stamp in whole ms, modulo 2^24.
        camera: Camera number, 0 to 15.
        frame: Frame number modulo 16.
    """

    stamp_ms: int
    camera: int
    frame: int


def write_strip(rgb: NDArray[np.uint8], *, stamp_ns: int, camera: int, frame: int) -> None:
    """Draw the strip into ``rgb`` (uint8 [H, W, 3]), in place.

    Raises:
        ValueError: when the picture is narrower than 40 px.
    """
    cell = rgb.shape[1] // CELLS
    if cell == 0:
        raise ValueError(f"a picture of {rgb.shape[1]} px is too narrow for a strip of {CELLS} cells")
    word = (stamp_ns // 1_000_000 % STAMP_MODULO_MS) << 8 | (camera % _CAMERAS) << 4 | frame % _FRAMES
    word = word << 8 | _crc8(word.to_bytes(4, "big"))
    bits = np.unpackbits(np.frombuffer(word.to_bytes(5, "big"), np.uint8))
    row = np.repeat(bits * np.uint8(255), cell)
    rgb[: 2 * cell, : cell * CELLS] = row[None, :, None]


def read_strip(rgb: NDArray[np.uint8]) -> StripReading | None:
    """The strip in ``rgb`` (uint8 [H, W, 3]); None when there is none or its CRC fails."""
    cell = rgb.shape[1] // CELLS
    if cell == 0 or rgb.shape[0] < 2 * cell:
        return None
    margin = cell // 4
    middle = rgb[cell // 2 : cell + cell // 2 + 1, : cell * CELLS].astype(np.float32).mean(axis=(0, 2))
    cells = middle.reshape(CELLS, cell)[:, margin : cell - margin or None].mean(axis=1)
    packed = np.packbits(cells > 127.0).tobytes()
    if _crc8(packed[:4]) != packed[4]:
        return None
    word = int.from_bytes(packed[:4], "big")
    return StripReading(stamp_ms=word >> 8, camera=word >> 4 & 0xF, frame=word & 0xF)


def strip_error_ms(reading: StripReading, expected_ns: int) -> float:
    """How far the strip's stamp lies after ``expected_ns``, in ms, across the wrap of the counter."""
    difference = (reading.stamp_ms - expected_ns / 1e6) % STAMP_MODULO_MS
    return difference - STAMP_MODULO_MS if difference >= STAMP_MODULO_MS / 2 else difference


def _crc8(message: bytes) -> int:
    crc = 0
    for byte in message:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ _CRC_POLYNOMIAL if crc & 0x80 else crc << 1) & 0xFF
    return crc
