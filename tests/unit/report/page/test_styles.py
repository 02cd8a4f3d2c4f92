"""The style stands in markup and works offline."""

from __future__ import annotations

import re

import pytest

from codeflash_parallel.report.page.styles import COLOURS, PLOT, STYLE


@pytest.mark.parametrize("style", [COLOURS, PLOT, STYLE], ids=["colours", "plot", "style"])
def test_a_style_needs_no_escape_and_loads_nothing(style: str) -> None:
    assert not re.search(r"[<>&]|url\(|@import", style)
    assert style.count("{") == style.count("}")


def test_every_colour_that_is_used_is_there_light_and_dark() -> None:
    light, dark = COLOURS.split("@media")
    used = set(re.findall(r"var\((--\w+)\)", STYLE))
    for scheme in (light, dark):
        assert used <= set(re.findall(r"(--\w+):", scheme))


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, by the formula of WCAG 2."""

    def light(colour: str) -> float:
        digits = colour * 2 if len(colour) == 3 else colour
        parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+):#(\w+)", COLOURS.split("@media")[scheme]))
    for text in ("ink", "soft", "link", "good", "bad", "unsure"):
        assert contrast(colours[text], colours["paper"]) >= 4.5, text
    for text, box in (("good", "goodbox"), ("bad", "badbox"), ("unsure", "unsurebox"), ("soft", "box")):
        assert contrast(colours[text], colours[box]) >= 4.5, text
    for box in ("unsurebox", "badbox", "box"):  # lines of a profile
        assert contrast(colours["ink"], colours[box]) >= 4.5, box
