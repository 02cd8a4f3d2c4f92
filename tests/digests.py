"""Digests of values, as the runner makes them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from codeflash_parallel._runner.values.type_handlers import EXHAUST
from codeflash_parallel._runner.values.value_digests import Walk
from codeflash_parallel._runner.values.value_text import type_name

Digests = namedtuple("Digests", "full floatless typeless type")  # noqa: PYI024 - compared and sliced


def encode(value: Any, iterators: str = EXHAUST) -> Digests:
    """Return the digests of a value all parts of which have a canonical form."""
    walk = Walk(iterators)
    walk.run(value)
    return Digests(*walk.digests(), type_name(type(value)))
