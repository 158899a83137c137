"""What the packets of an H.264 stream say of themselves, without decoding a picture.

Syntax: ITU-T H.264, 7.3.2.1 (sequence parameter sets), 7.3.3 (slice headers), E.1.1 (video usability),
Annex B (byte streams).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from piper_collect.errors import ImageError
from piper_collect.imaging.h264_gaps import UnseenGaps

_SLICE, _IDR, _SPS, _PPS = 1, 5, 7, 8
_B_SLICES = (1, 6)
_FULL_HEADER_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})
_HEADER_BYTES = 64  # a slice's header fields that are read here lie in far fewer
_EXTENDED_SAR = 255
UNSPECIFIED = 2
"""The matrix of a stream that names none (ITU-T H.273)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceParameters:
    """What holds for every picture.

    Attributes:
        height: Rows of a picture, cropped as the stream says.
        width: Columns.
        is_420: Whether it is 4:2:0 of 8 bits.
        is_interlaced: Whether it may hold fields.
        full_range: Whether luma spans 0..255.
        matrix: H.273 code of the matrix of YCbCr.
        frame_num_bits: Bits of ``frame_num``.
        separate_planes: Whether each colour has slices of its own.
        gaps_allowed: Whether ``frame_num`` may skip without a loss.
    """

    height: int
    width: int
    is_420: bool
    is_interlaced: bool
    full_range: bool
    matrix: int
    frame_num_bits: int
    separate_planes: bool
    gaps_allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketLook:
    """One packet, which is one picture.

    A loss shows by the number of a picture, which counts from the key frame before. Where just as many
    packets are lost as lie between two key frames it does not; then the sender's own count shows it, or the
    time.

    Attributes:
        is_key: Whether decoding can begin with it.
        is_decodable: Whether all that it refers to came before it: false before the first key frame,
            and from a lost packet to the next key frame.
        is_after_loss: Whether it is not decodable because a packet before it was lost.
        has_b: Whether it refers to later pictures (a B-frame).
    """

    is_key: bool
    is_decodable: bool
    is_after_loss: bool
    has_b: bool


class StreamParser:
    """Looks at the packets of one stream in the order of decoding.

    Attributes:
        sequence: The newest sequence parameters; None before there are any.
        parameter_sets: The newest parameter sets, as a byte stream.
        changes: How often a parameter set was replaced by another one.
    """

    def __init__(self) -> None:
        self.sequence: SequenceParameters | None = None
        self.changes = 0
        self._sets: dict[tuple[int, int], bytes] = {}
        self._reference_num: int | None = None
        self._lost = False
        self._gaps = UnseenGaps()

    @property
    def parameter_sets(self) -> bytes:
        """The newest parameter sets, as a byte stream."""
        return b"".join(b"\x00\x00\x00\x01" + unit for _, unit in sorted(self._sets.items()))

    def add(self, payload: bytes | memoryview, *, stamp_ns: int = 0, count: int | None = None) -> PacketLook:
        """Look at the next packet.

        Args:
            payload: Its bytes.
            stamp_ns: Its capture time; 0 where it is not known.
            count: Its number as its sender counts; None where it does not.

        Raises:
            ImageError: It is no byte stream of Annex B, has no picture, or a header is damaged.
        """
        look: PacketLook | None = None
        try:
            for unit in units(bytes(payload)):
                kind = unit[0] & 31
                if kind in (_SPS, _PPS):
                    self._learn(kind, unit)
                elif kind in (_SLICE, _IDR) and look is None:
                    look = self._picture(unit, kind, stamp_ns, count)
        except IndexError as err:
            raise ImageError("a header of the H.264 packet is cut off", got=_seen(payload)) from err
        if look is None:
            raise ImageError(
                "not a picture in H.264",
                expected="NAL units of a picture behind start codes (Annex B)",
                got=_seen(payload),
            )
        self._gaps.add(stamp_ns, count, is_key=look.is_key, follows=look.is_decodable)
        return look

    def _learn(self, kind: int, unit: bytes) -> None:
        bits = _Bits(unit[1:])
        if kind == _SPS:
            bits.skip(24)
        key = kind, bits.ue()
        unit = unit.rstrip(b"\x00")
        if self._sets.get(key, unit) != unit:
            self.changes += 1
        self._sets[key] = unit
        if kind == _SPS:
            self.sequence = parse_sequence(unit)

    def _picture(self, unit: bytes, kind: int, stamp_ns: int, count: int | None) -> PacketLook:
        is_key = kind == _IDR and self.sequence is not None
        if self.sequence is None:
            return PacketLook(is_key=False, is_decodable=False, is_after_loss=False, has_b=False)
        bits = _Bits(unit[1:_HEADER_BYTES])
        bits.ue()  # first macroblock
        has_b = bits.ue() in _B_SLICES
        bits.ue()  # picture parameter set
        bits.skip(2 if self.sequence.separate_planes else 0)
        number = bits.u(self.sequence.frame_num_bits)
        if is_key:
            self._reference_num, self._lost = number, False
        elif self._reference_num is not None:
            expected = {(self._reference_num + 1) % (1 << self.sequence.frame_num_bits)}
            if self.sequence.is_interlaced:  # the second field of the same picture
                expected.add(self._reference_num)
            if number not in expected and not self.sequence.gaps_allowed:
                self._lost = True
            self._lost = self._lost or self._gaps.may_hide_loss(stamp_ns, count)
            if unit[0] & 0x60:  # a picture that others refer to
                self._reference_num = number
        begun = self._reference_num is not None
        return PacketLook(
            is_key=is_key,
            is_decodable=begun and not self._lost,
            is_after_loss=self._lost,
            has_b=has_b,
        )


def parse_sequence(unit: bytes) -> SequenceParameters:
    """The fields of a sequence parameter set (one NAL unit, with its header).

    Raises:
        IndexError: It is cut off.
    """
    bits = _Bits(unit[1:])
    profile = bits.u(8)
    bits.skip(16)
    bits.ue()
    chroma, depth, separate = _samples(bits) if profile in _FULL_HEADER_PROFILES else (1, 8, False)
    frame_num_bits = 4 + bits.ue()
    _skip_picture_order(bits)
    bits.ue()
    gaps_allowed = bits.flag()
    width, height = 16 * (bits.ue() + 1), 16 * (bits.ue() + 1)
    frames_only = bits.flag()
    if not frames_only:
        height *= 2
        bits.skip(1)
    bits.skip(1)
    if bits.flag():
        left, right, top, bottom = (bits.ue() for _ in range(4))
        across = 2 if chroma in (1, 2) else 1
        down = (2 if chroma == 1 else 1) * (1 if frames_only else 2)
        width, height = width - across * (left + right), height - down * (top + bottom)
    full_range, matrix = _signal_type(bits) if bits.flag() else (False, UNSPECIFIED)
    return SequenceParameters(
        height=height,
        width=width,
        is_420=chroma == 1 and depth == 8,
        is_interlaced=not frames_only,
        full_range=full_range,
        matrix=matrix,
        frame_num_bits=frame_num_bits,
        separate_planes=separate,
        gaps_allowed=gaps_allowed,
    )


def units(stream: bytes) -> Iterator[bytes]:
    """The NAL units of a byte stream, without start codes; empty where it does not begin with one."""
    begin = stream.find(b"\x00\x00\x01")
    if begin < 0 or any(stream[:begin]):
        return
    while begin >= 0:
        end = stream.find(b"\x00\x00\x01", begin + 3)
        unit = stream[begin + 3 : end if end >= 0 else len(stream)]
        if unit:
            yield unit
        begin = end


def _samples(bits: "_Bits") -> tuple[int, int, bool]:
    """Chroma format, bits of a sample, and whether each colour has slices of its own."""
    chroma = bits.ue()
    separate = chroma == 3 and bits.flag()
    depth = 8 + max(bits.ue(), bits.ue())
    bits.skip(1)
    if bits.flag():
        _skip_scaling_lists(bits, 12 if chroma == 3 else 8)
    return chroma, depth, separate


def _skip_scaling_lists(bits: "_Bits", count: int) -> None:
    for number in range(count):
        if not bits.flag():
            continue
        last, following = 8, 8
        for _ in range(16 if number < 6 else 64):
            if following:
                following = (last + bits.se()) % 256
            last = following or last


def _skip_picture_order(bits: "_Bits") -> None:
    kind = bits.ue()
    if kind == 0:
        bits.ue()
    elif kind == 1:
        bits.skip(1)
        bits.se()
        bits.se()
        for _ in range(bits.ue()):
            bits.se()


def _signal_type(bits: "_Bits") -> tuple[bool, int]:
    """Full range or not, and the matrix."""
    if bits.flag() and bits.u(8) == _EXTENDED_SAR:
        bits.skip(32)
    if bits.flag():
        bits.skip(1)
    if not bits.flag():
        return False, UNSPECIFIED
    bits.skip(3)
    full_range = bits.flag()
    if not bits.flag():
        return full_range, UNSPECIFIED
    bits.skip(16)
    return full_range, bits.u(8)


class _Bits:
    """Reads bit fields; raises IndexError at the end."""

    def __init__(self, content: bytes) -> None:
        self._content = content.replace(b"\x00\x00\x03", b"\x00\x00")  # emulation prevention
        self._at = 0

    def u(self, count: int) -> int:
        value = 0
        for _ in range(count):
            value = value << 1 | self._content[self._at >> 3] >> (7 - (self._at & 7)) & 1
            self._at += 1
        return value

    def flag(self) -> bool:
        return bool(self.u(1))

    def skip(self, count: int) -> None:
        self._at += count

    def ue(self) -> int:
        zeros = 0
        while not self.u(1):
            zeros += 1
        return (1 << zeros) - 1 + self.u(zeros)

    def se(self) -> int:
        code = self.ue()
        return (code + 1) // 2 if code % 2 else -(code // 2)


def _seen(payload: bytes | memoryview) -> str:
    return f"{memoryview(payload).nbytes} bytes beginning {bytes(payload[:8]).hex(' ')}"
