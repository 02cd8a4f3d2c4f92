"""A list of a hundred thousand numbers, from which pages, samples and single items are read."""

from __future__ import annotations

from sortedcontainers import SortedList

NUMBERS = SortedList(range(0, 300_000, 3))
PAGES = range(50, 100_000, 5_003)


def main() -> list[object]:
    pages = [NUMBERS[at : at + 20] for at in PAGES]
    samples = [NUMBERS[at : at + 2_000 : 100] for at in PAGES[::4]]
    return [pages, samples, [NUMBERS[at] for at in PAGES]]
