"""Settings of an expensive test: a few iterables of some items, and one of two longer ones."""

from __future__ import annotations

from more_itertools import partial_product

SIZES = [16, 32, 64, 128, 256]
MODES = ["fast", "safe", "strict"]
NAMES = [f"case {n}" for n in range(12)]


def main() -> list[tuple[object, ...]]:
    settings = list(partial_product(SIZES, MODES, NAMES, (True, False), "abcdef"))
    return settings + list(partial_product(range(200), range(100)))
