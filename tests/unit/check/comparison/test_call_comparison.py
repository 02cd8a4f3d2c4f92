"""How far floats lie apart: figures that are true, and options that really accept what they say."""

from __future__ import annotations

import base64
import math
import struct

from effort import drawn
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codeflash_parallel.check.comparison.call_comparison import Gap, Tolerance, accepted, gap, unpacked

numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(numbers))
def test_equal_floats_have_no_gap(values: list[float]) -> None:
    assert gap(values, values) == Gap()
    assert accepted(values, values, Tolerance())


@given(numbers, st.integers(1, 50))
def test_ulps_count_the_doubles_in_between(value: float, steps: int) -> None:
    other = value
    for _ in range(steps):
        other = math.nextafter(other, math.inf)
    assert gap([value], [other]).ulps == gap([other], [value]).ulps == steps


@settings(max_examples=drawn(50))
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5))
def test_the_named_options_accept_it(pairs: list[tuple[float, float]]) -> None:
    expected, got = zip(*pairs, strict=True)
    found = gap(expected, got)
    assume(found.ulps and all(abs(a - b) > 1e-290 for a, b in pairs if a != b))
    assume(math.isinf(found.relative) or found.relative < 1e290)
    words = dict(zip(found.accepting.split()[::2], found.accepting.split()[1::2], strict=True))
    options = Tolerance(rtol=float(words.get("--rtol", 0)), atol=float(words.get("--atol", 0)))
    assume(found.accepting and math.isfinite(options.rtol) and math.isfinite(options.atol))
    assert accepted(expected, got, options)


def test_what_is_no_number_is_near_itself_only() -> None:
    loose = Tolerance(rtol=1e9, atol=1e9)
    assert accepted([math.nan, math.inf], [math.nan, math.inf], loose)
    for pair in ((math.nan, 1.0), (1.0, math.inf), (math.inf, -math.inf)):
        assert not accepted([pair[0]], [pair[1]], loose)
        assert gap([pair[0]], [pair[1]]).accepting == ""
    assert not accepted([1.0], [1.0, 1.0], loose)


def test_floats_are_read_from_text_or_not_at_all() -> None:
    packed = base64.b64encode(struct.pack("<2d", 1.5, -0.0)).decode()
    assert unpacked(packed) == (1.5, -0.0)
    assert unpacked("") == unpacked("no base64!") == unpacked(packed[:-4]) == ()
