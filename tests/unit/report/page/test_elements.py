"""Elements escape and bound what they are given."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_cases import ATTACKS, assert_sound

from codeflash_parallel.report.page.elements import (
    MOST_CHARACTERS,
    Markup,
    bounded,
    element,
    page,
    pairs,
    paragraph,
    section,
    table,
)


@given(st.text(), st.text())
def test_any_text_is_text(value: str, child: str) -> None:
    parsed = ET.fromstring(element("p", {"title": value}, child))
    assert parsed.tag == "p"
    assert len(parsed) == 0
    assert set(parsed.attrib) == {"title"}


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_an_attack_has_no_elements_and_is_bounded(text: str) -> None:
    made = element("td", {"aria-label": text}, text)
    assert len(ET.fromstring(made)) == 0
    assert len(made) < 40 * MOST_CHARACTERS


def test_markup_is_taken_as_it_is_and_absent_attributes_are_left_out() -> None:
    assert element("p", {"class": None, "id": "a"}, element("b", None, "x"), " & y") == (
        '<p id="a"><b>x</b> &amp; y</p>'
    )
    assert element("meta", {"charset": "utf-8"}) == '<meta charset="utf-8"/>'
    assert element("td") == "<td></td>"


def test_a_long_text_says_how_much_is_missing() -> None:
    assert bounded("ab" * 3, limit=4) == "abab… (2 more characters)"
    assert bounded("ab", limit=4) == "ab"


def test_what_has_no_parts_is_nothing() -> None:
    assert section("a", "A", Markup(), Markup()) == ""
    assert paragraph("") == ""
    assert pairs([("name", "")]) == ""


def test_a_name_has_all_its_values() -> None:
    made = ET.fromstring(pairs([("served", "a"), ("seed", "1"), ("served", "b")]))
    assert [[part.text for part in item] for item in made] == [["served", "a", "b"], ["seed", "1"]]


def test_a_table_has_headings_and_figures_to_the_right() -> None:
    made = table("Some", ("name", "n"), [("a", "1")], figures=(1,))
    parsed = ET.fromstring(made)
    assert (parsed.attrib["aria-label"], parsed.attrib["tabindex"]) == ("Some", "0")
    (row,) = parsed.findall(".//tbody/tr")
    assert (row[0].tag, row[0].attrib["scope"], row[1].attrib["class"]) == ("th", "row", "n")


def test_a_page_is_sound_with_nothing_in_it() -> None:
    root = assert_sound(page("A title", "A heading", ()))
    assert root.findtext(".//title") == "A title"
