"""Kinds of values, spans, and the columns of a table."""

from __future__ import annotations

import pytest

from codeflash_parallel.config.settings_table import INTEGERS, PARALLEL, SWITCH, TEXTS, columns_of, span_s
from codeflash_parallel.queue.queue_settings import QueueSettings


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (SWITCH, "TRUE", True),
        (SWITCH, "off", False),
        (SWITCH, "0", False),
        (TEXTS, "a 'b c'", ("a", "b c")),
        (TEXTS, "", ()),
        (INTEGERS, "race=1 'x=y=2'", {"race": 1, "x=y": 2}),
        (PARALLEL, "auto", "auto"),
        (PARALLEL, "3", 3),
    ],
)
def test_text_becomes_a_value_of_its_kind(kind, text, value) -> None:
    assert kind.parse_all(text) == value


@pytest.mark.parametrize(
    ("kind", "text"), [(SWITCH, "maybe"), (INTEGERS, "race"), (INTEGERS, "=1"), (INTEGERS, "race=1.5")]
)
def test_text_of_another_kind_is_not_guessed(kind, text) -> None:
    with pytest.raises(ValueError, match=text.rpartition("=")[2]):
        kind.parse_all(text)


@pytest.mark.parametrize(("text", "seconds"), [("1.5h", 5400), ("1d", 86_400), ("2min", 120), ("7", 7)])
def test_spans_have_units(text: str, seconds: float) -> None:
    assert span_s(text) == seconds


def test_spellings_come_from_the_name_where_the_entry_says_none() -> None:
    row = columns_of(QueueSettings, "PREFIX_")["max_queue_size"]
    assert (row.key, row.flag, row.variable) == (
        "max-queue-size",
        "--max-queue-size",
        "PREFIX_MAX_QUEUE_SIZE",
    )
    assert (row.metavar, row.default) == ("N", 10_000)
