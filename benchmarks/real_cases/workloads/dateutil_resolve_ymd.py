"""Numbers of dates as a parser finds them, with what it knows of each, in all orders."""

from __future__ import annotations

from dateutil.parser._parser import _ymd

FOUND = (
    ((2003, "Y"), (9, None), (25, None)),
    ((25, None), (9, "M"), (2003, "Y")),
    ((10, None), (9, None), (3, None)),
    ((9, "M"), (25, None), (3, None)),
    ((3, "Y"), (9, "M"), (25, "D")),
    ((25, "D"), (9, "M"), (99, None)),
    ((9, "M"), (2003, "Y")),
    ((31, None), (12, None), (99, None)),
    ((99, None), (1, None)),
    ((12, None),),
    (),
)


def parts(found: tuple[tuple[int, str | None], ...]) -> _ymd:
    ymd = _ymd()
    for number, label in found:
        ymd.append(number, label)
    return ymd


DATES = [parts(found) for found in FOUND]
OPTIONS = [(yearfirst, dayfirst) for yearfirst in (False, True) for dayfirst in (False, True)]


def main() -> list[tuple[int | None, ...]]:
    return [ymd.resolve_ymd(*options) for _ in range(20) for ymd in DATES for options in OPTIONS]
