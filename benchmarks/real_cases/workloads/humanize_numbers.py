"""Numbers of a report: amounts with separators, places, small counts in words, measurements by exponent."""

from __future__ import annotations

from humanize.number import apnumber, intcomma, ordinal, scientific

WHOLE = [number**3 - 40 for number in range(0, 900, 9)]


def main() -> list[str]:
    said = []
    for number in WHOLE:
        said += [
            intcomma(number),
            intcomma(number / 7, 2),
            intcomma(f"{number}.5"),
            ordinal(number),
            apnumber(number % 12),
            scientific(number / 3),
        ]
    return said
