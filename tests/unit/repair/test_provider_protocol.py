"""Answers of providers that are Python objects: checked before anything is made of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codeflash_parallel.repair.provider_protocol import (
    MAX_ANSWERS,
    Answer,
    MalformedAnswer,
    checked_answers,
)
from codeflash_parallel.result.candidate.candidate_model import (
    FileText,
    FileTexts,
    GitRef,
    PatchText,
    Replacement,
)


def endless() -> Iterator[Answer]:
    while True:
        yield Answer(content=PatchText(patch="p"))


@pytest.mark.parametrize(
    "value",
    [
        3, "patch", b"patch", [3], [None], {"patch": "p"}, object(), endless(),
        Answer(content=3), Answer(content=PatchText(patch="")), Answer(content=PatchText(patch=3)),
        Answer(content=PatchText(patch=" \n")), Answer(content=Replacement(code="")), Answer(content=GitRef(ref="")),
        Answer(content=Replacement(code="x", function=3)), Answer(content=FileTexts(files=())),
        Answer(content=FileTexts(files=[FileText(path="a", text="")])), Answer(content=FileTexts(files=("a",))),
        Answer(content=FileTexts(files=(FileText(path="a", text=3),))), Answer(content=FileTexts(files=(FileText(path="", text=""),))),
        Answer(content=PatchText(patch="\ud83d")), Answer(content=Replacement(code="x", function="\ud83d")),
        Answer(content=PatchText(patch="p"), explanation=None), Answer(content=PatchText(patch="p"), parent="stranger"),
    ],
)  # fmt: skip
def test_malformed_returns_are_told(value):
    with pytest.raises(MalformedAnswer):
        checked_answers(value, ["a"])


def test_good_returns_get_their_parent():
    answer = Answer(content=FileTexts(files=(FileText(path="a", text=None), FileText(path="b", text=""))))
    assert checked_answers(None, ["a"]) == ()
    assert checked_answers([], ["a"]) == ()
    assert [a.parent for a in checked_answers(answer, ["a", "b"])] == ["a"]
    other = Answer(content=PatchText(patch="p"), parent="b")
    assert [a.parent for a in checked_answers(iter([answer, other]), ["a", "b"])] == ["a", "b"]
    assert len(checked_answers([answer] * MAX_ANSWERS, ["a"])) == MAX_ANSWERS
