from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.process.launcher.child_connection import BoundedOutput, ClippedOutput

chunks = st.lists(st.binary(max_size=40), max_size=20)


@given(chunks, st.integers(2, 100))
def test_a_clip_keeps_both_ends(parts, limit):
    clip, whole = ClippedOutput(limit), b"".join(parts)
    for part in parts:
        clip.write(memoryview(part))
    half = limit // 2
    if len(whole) <= 2 * half:
        assert clip.text() == whole.decode("utf-8", "replace")
    else:
        gap = f"\n... {len(whole) - 2 * half} bytes left out ...\n".encode()
        assert clip.text() == (whole[:half] + gap + whole[-half:]).decode("utf-8", "replace")
    assert clip.text() == clip.text()


@given(chunks, st.integers(0, 200))
def test_records_stop_at_their_limit(parts, limit):
    records, whole = BoundedOutput(limit), b"".join(parts)
    for part in parts:
        records.write(memoryview(part))
    assert records.content() == whole[:limit]
    assert records.flooded == (len(whole) > limit)
