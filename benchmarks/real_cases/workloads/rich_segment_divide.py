"""Lines of a screen cut into columns: a table, a line of a log, wide characters."""

from __future__ import annotations

from rich.segment import ControlType, Segment
from rich.style import Style

BOLD, DIM, PLAIN = Style(bold=True), Style(dim=True), None
ROW = [
    part
    for n in range(12)
    for part in (Segment("│ ", DIM), Segment(f"cell number {n}", BOLD), Segment(" " * (n % 5), PLAIN))
]
LOG = [Segment("12:30:01 ", DIM), Segment("INFO  ", BOLD), Segment("request GET /index.html took 12 ms " * 4)]
WIDE = [Segment("表示幅が二倍の文字", BOLD), Segment(" and ascii ", DIM), Segment("💩 の後", PLAIN)]
HOME = [Segment("\x1b[H", PLAIN, [(ControlType.HOME,)]), Segment("status: ok", BOLD)]
LINES = [
    (ROW, [20, 40, 60, 80, 100, 120, 160]),
    (ROW, [0, 79]),
    (LOG, [9, 15, 80]),
    (LOG, list(range(8, 160, 8))),
    (WIDE, [3, 8, 18, 27]),
    (HOME, [4, 10]),
]


def main() -> list[list[list[tuple[str, str]]]]:
    divided = [list(Segment.divide(segments, cuts)) for _ in range(5) for segments, cuts in LINES]
    return [[[(text, str(style)) for text, style, _ in part] for part in parts] for parts in divided]
