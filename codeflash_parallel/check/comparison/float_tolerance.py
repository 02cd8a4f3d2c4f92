"""How far floats lie apart, and whether that is near enough. Pure.

Floats come from the guests as little-endian doubles in base64, in the order in which the encoder met them.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tolerance:
    """How far apart floats may lie: ``|got - expected| <= atol + rtol * |expected|``; both 0: exactly."""

    rtol: float = 0.0
    atol: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether nothing but the same bits will do."""
        return not (self.rtol or self.atol)

    def accepts(self, expected: float, got: float) -> bool:
        """Say whether a float is near enough to another one; a nan is near a nan, an infinity to itself."""
        if expected == got or (math.isnan(expected) and math.isnan(got)):
            # -0.0 is 0.0 for whoever allows any difference.
            return True
        if not (math.isfinite(expected) and math.isfinite(got)):
            return False
        return abs(got - expected) <= self.atol + self.rtol * abs(expected)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """The largest differences among pairs of floats.

    Attributes:
        ulps: in units in the last place of a double (the number of doubles in between, plus one); infinite
            where one of a pair is no finite number.
        relative: largest difference relative to the expected one; infinite where that is 0.
        absolute: largest absolute one.
        absolute_at_zero: largest absolute one of those where 0 was expected, which no `rtol` accepts.
        relative_elsewhere: largest relative one of all others.
    """

    ulps: float = 0.0
    relative: float = 0.0
    absolute: float = 0.0
    absolute_at_zero: float = 0.0
    relative_elsewhere: float = 0.0

    def joined(self, other: Gap) -> Gap:
        """Return the larger of each."""
        names = ("ulps", "relative", "absolute", "absolute_at_zero", "relative_elsewhere")
        return Gap(**{name: max(getattr(self, name), getattr(other, name)) for name in names})

    @property
    def accepting(self) -> str:
        """Return the options that would accept it; empty if none would."""
        if math.isinf(self.ulps) or math.isinf(self.relative_elsewhere):
            return ""
        rtol = [f"--rtol {_rounded_up(self.relative_elsewhere)}"] if self.relative_elsewhere else []
        atol = [f"--atol {_rounded_up(self.absolute_at_zero)}"] if self.absolute_at_zero else []
        return " ".join(rtol + atol)

    @property
    def words(self) -> str:
        """Return the figures, and what would accept them."""
        if math.isinf(self.ulps):
            return "a float became nan or infinite, or was it"
        relative = "" if math.isinf(self.relative) else f", {self.relative:.2g} of the value"
        return f"up to {self.ulps:.0f} ulp{relative}; {self.accepting or 'no --rtol'} would accept it"


def gap(expected: Sequence[float], got: Sequence[float]) -> Gap:
    """Return the largest differences of floats that belong together."""
    found = Gap()
    for left, right in zip(expected, got, strict=True):
        found = found.joined(_gap(left, right))
    return found


def _gap(expected: float, got: float) -> Gap:
    if _bits(expected) == _bits(got) or (math.isnan(expected) and math.isnan(got)):
        return Gap()
    if not (math.isfinite(expected) and math.isfinite(got)):
        return Gap(ulps=math.inf, relative=math.inf, absolute=math.inf)
    absolute = abs(got - expected)
    ulps = abs(_place(expected) - _place(got))
    if expected == 0:
        return Gap(ulps=ulps, relative=math.inf, absolute=absolute, absolute_at_zero=absolute)
    relative = absolute / abs(expected)
    return Gap(ulps=ulps, relative=relative, absolute=absolute, relative_elsewhere=relative)


def accepted(expected: Sequence[float], got: Sequence[float], tolerance: Tolerance) -> bool:
    """Say whether all floats are near enough to those that they belong to."""
    return len(expected) == len(got) and all(map(tolerance.accepts, expected, got))


def unpacked(text: str) -> tuple[float, ...]:
    """Return the floats in a text; none where it is not of the form."""
    try:
        data = base64.b64decode(text, validate=True)
        return struct.unpack(f"<{len(data) // 8}d", data)
    except (binascii.Error, struct.error, ValueError):
        return ()


def _bits(number: float) -> bytes:
    return struct.pack("<d", number)


def _place(number: float) -> int:
    """Return the place of a double among all doubles in order; neighbours differ by 1."""
    bits: int = struct.unpack("<q", _bits(number))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF)


def _rounded_up(number: float) -> str:
    """Return a number with two digits that is not below the given one."""
    exponent = math.floor(math.log10(number))
    digits = math.ceil(number / 10.0**exponent * 10) / 10 if exponent > -300 else 10.0  # noqa: PLR2004
    return f"{digits + 0.1:.1f}e{exponent:d}"
