"""Answers of providers that are Python objects: checked before anything is made of them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from codeflash_parallel.repair.provider_protocol import (
    MAX_ANSWERS,
    Ancestor,
    Answer,
    MalformedAnswer,
    RefinementKind,
    RefinementRequest,
    RepairRequest,
    answer_document,
    checked_answers,
    read_answers,
    read_request,
    request_document,
)
from codeflash_parallel.result.candidate_model import (
    FileText,
    FileTexts,
    GitRef,
    PatchText,
    Replacement,
)
from codeflash_parallel.result.result_model import (
    FailedTest,
    FirstDifference,
    LineProfile,
    LineTiming,
    Speedup,
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


texts = st.text(max_size=8)
numbers = st.floats(0.1, 9)
speedups = st.builds(Speedup, estimate=numbers, low=numbers, high=numbers)
timings = st.builds(
    LineTiming, path=texts, line=st.integers(1, 9), hits=st.integers(0, 9), time_ns=st.integers(0), text=texts
)
profiles = st.none() | st.builds(LineProfile, tracer=texts, lines=st.lists(timings, max_size=2).map(tuple))
sources = st.dictionaries(texts, texts, max_size=2).map(lambda d: tuple(d.items()))
ids = st.lists(texts, max_size=3).map(tuple)
repairs = st.builds(
    RepairRequest,
    candidate=texts, targets=ids, code=texts, reason=texts, diff=texts, source=sources,
    failures=st.lists(st.builds(FailedTest, id=texts, phase=texts, message=texts), max_size=2).map(tuple),
    missing=ids,
    difference=st.none() | st.builds(FirstDifference, target=texts, test=texts, call=st.integers(), inputs=texts, expected=texts, got=texts),
    ancestry=ids,
)  # fmt: skip
ancestors = st.builds(Ancestor, candidate=texts, diff=texts, explanation=texts, speedup=st.none() | speedups)
refinements = st.builds(
    RefinementRequest,
    candidate=texts, kind=st.sampled_from(RefinementKind), targets=ids, diff=texts, source=sources, speedup=speedups,
    profile=profiles, baseline_profile=profiles, ancestry=st.lists(ancestors, max_size=3).map(tuple),
)  # fmt: skip
contents = (
    st.builds(PatchText, patch=texts)
    | st.builds(Replacement, code=texts, function=texts)
    | st.builds(
        FileTexts,
        files=st.lists(
            st.builds(FileText, path=texts, text=st.none() | texts),
            min_size=1,
            max_size=2,
            unique_by=lambda file: file.path,
        ).map(tuple),
    )
)
answers = st.builds(Answer, content=contents, explanation=texts, parent=texts)


def through_json(value):
    return json.loads(json.dumps(value))


@settings(max_examples=drawn(50))
@given(repairs)
def test_a_repair_request_survives_the_wire(request):
    assert read_request(through_json(request_document(request))) == request


@settings(max_examples=drawn(50))
@given(st.lists(refinements, max_size=2).map(tuple))
def test_refinement_requests_survive_the_wire(requests):
    assert read_request(through_json(request_document(requests))) == requests


@settings(max_examples=drawn(50))
@given(st.lists(answers, max_size=3).map(tuple))
def test_answers_survive_the_wire(given_answers):
    assert read_answers(json.dumps([answer_document(answer) for answer in given_answers])) == given_answers


@pytest.mark.parametrize("text", ["", "  \n", "null", "[]", '{"answers": []}', '{"answers": null}'])
def test_no_idea_is_no_answer(text):
    assert read_answers(text) == ()


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{"patch": "p"}', PatchText(patch="p")),
        ('{"replacement": "r", "patch": null}', Replacement(code="r")),
        ('[{"replacement": "r", "function": "a.py::f"}]', Replacement(code="r", function="a.py::f")),
        (
            '{"edits": {"a.py": "x", "b.py": null}}',
            FileTexts(files=(FileText(path="a.py", text="x"), FileText(path="b.py", text=None))),
        ),
        (
            '{"answers": [{"edits": [{"path": "a.py", "text": "x"}]}]}',
            FileTexts(files=(FileText(path="a.py", text="x"),)),
        ),
    ],
)
def test_every_kind_of_answer(text, content):
    assert [a.content for a in read_answers(text)] == [content]


@pytest.mark.parametrize(
    "text",
    [
        "{", "3", '"patch"', "[3]", "{}", '{"patch": 3}', '{"patch": "a", "replacement": "b"}', '{"ref": "main"}',
        '{"edits": 3}', '{"edits": {"a": 3}}', '{"edits": [["a", "b"]]}', '{"edits": [{"path": 1, "text": ""}]}',
        '{"patch": "a", "explanation": 3}', '{"answers": 3}', "[" * 100_000,
        '{"patch": "\\ud83d"}', '{"replacement": "x = \\"\\ud83d\\""}', '{"edits": {"a.py": "\\ud83d"}}',
        '{"edits": {"\\ud83d.py": ""}}',
    ],
)  # fmt: skip
def test_malformed_answers_are_told(text):
    with pytest.raises(MalformedAnswer):
        read_answers(text)


def test_a_git_ref_does_not_go_over_the_wire():
    with pytest.raises(MalformedAnswer):
        answer_document(Answer(content=GitRef(ref="main")))
