from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.sandbox.runner_command import parse_records

values = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))
records = st.lists(st.dictionaries(st.text(), values, max_size=3), max_size=5)


@given(records)
def test_records_come_back_in_order(items):
    data = b"".join(json.dumps(item).encode() + b"\n" for item in items)

    assert list(parse_records(data)) == items


@given(records, st.data())
def test_a_cut_stream_gives_a_prefix(items, data):
    stream = b"".join(json.dumps(item).encode() + b"\n" for item in items)
    cut = data.draw(st.integers(0, len(stream)))

    got = list(parse_records(stream[:cut]))

    assert got == items[: len(got)]
    assert len(got) >= stream[:cut].count(b"\n")


def test_what_is_no_object_is_skipped():
    assert list(parse_records(b'1\n\xff\xfe\n[]\n\n{"t":"end","status":0}\n{"t":')) == [
        {"t": "end", "status": 0}
    ]
