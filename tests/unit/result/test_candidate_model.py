"""Candidates: names by content, and contents as objects have them."""

from __future__ import annotations

import pytest

from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Content,
    Edit,
    FileText,
    FileTexts,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    Submission,
    content_document,
    content_of,
    encoding_fault,
)

CONTENTS = [
    PatchText(patch="--- a\n"),
    Replacement(code="def f(): ...\n", function="m.py::f"),
    Replacement(code="def f(): ...\n"),
    ModelAnswer(answer="```python:a.py\na = 1\n```\n"),
    FileTexts(files=(FileText(path="a.py", text="a = 1\n"), FileText(path="b.py", text=None))),
]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
def test_a_content_is_read_from_its_document(content: PatchText | Replacement | FileTexts) -> None:
    assert content_of(content_document(content)) == content


def test_edits_may_be_an_object_of_paths() -> None:
    assert content_of({"edits": {"a.py": "a = 1\n", "b.py": None}}) == CONTENTS[-1]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({}, "exactly one of"),
        ({"patch": "p", "replacement": "r"}, "exactly one of"),
        ({"patch": "p", "function": "f"}, "goes with replacement only"),
        ({"patch": 3}, "patch must be a text, not int"),
        ({"patch": "\ud83d"}, "patch cannot be written to a file"),
        ({"edits": {"a.py": 3}}, "must be texts"),
        ({"edits": {"a.py": "\ud83d"}}, "edits of a.py cannot be written"),
        ({"edits": "a.py"}, "edits must be"),
        ({"edits": [{"path": "a", "text": ""}, {"path": "a", "text": ""}]}, "name a path twice"),
    ],
)
def test_what_is_no_content_is_named(data: dict[str, object], error: str) -> None:
    with pytest.raises((ValueError, TypeError), match=error):
        content_of(data)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        *zip(CONTENTS, ("patch", "replacement", "replacement", "answer", "edits"), strict=True),
        (GitRef(ref="HEAD"), "ref"),
    ],
)
def test_the_origin_follows_from_the_content_unless_it_is_given(content: Content, kind: str) -> None:
    one = Submission(id=CandidateId("a"), content=content)
    assert one.kind == CandidateOrigin(kind)
    repaired = Submission(id=CandidateId("a"), content=content, origin=CandidateOrigin.REPAIR)
    assert repaired.kind is CandidateOrigin.REPAIR


def test_equal_files_have_one_key_whatever_they_replaced() -> None:
    def key(new: bytes | None, *, old: str | None = None, executable: bool = False) -> str:
        edits = (Edit(path="a.py", old_digest=old, new=new, executable=executable),)
        return Candidate(id=CandidateId("a"), origin=CandidateOrigin.PATCH, edits=edits).content_key

    assert key(b"x") == key(b"x", old="0" * 64)
    assert len({key(b"x"), key(b"y"), key(None), key(b"x", executable=True)}) == 4


def test_undecodable_bytes_can_be_written_and_half_a_character_cannot() -> None:
    assert encoding_fault("\udc80 and text") == ""
    assert "at character 2" in encoding_fault("ab\ud83d")
