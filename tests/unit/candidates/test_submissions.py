from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.submissions import (
    CandidateSource,
    is_id,
    natural,
    read_manifest,
    read_submissions,
)
from codeflash_parallel.result.candidate_model import (
    CandidateId,
    Content,
    FileText,
    FileTexts,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    Submission,
)
from codeflash_parallel.result.errors import UsageError

PATCH = "--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n"


def paths(*texts: object) -> list[CandidateSource]:
    return [CandidateSource(str(text)) for text in texts]


def ids(sources: list[CandidateSource]) -> list[str]:
    return [s.id for s in read_submissions(sources)]


def refused(sources: list[CandidateSource]) -> str:
    with pytest.raises(UsageError) as caught:
        read_submissions(sources)
    return str(caught.value)


def test_a_folder_gives_its_files_in_natural_order(tmp_path: Path) -> None:
    for name in ("c10.patch", "c2.diff", "c1.py", "README.md", ".hidden.patch", "notes.txt"):
        (tmp_path / name).write_text(PATCH)
    (tmp_path / "folder.py").mkdir()
    submissions = read_submissions(paths(tmp_path))
    assert [s.id for s in submissions] == ["c1", "c2", "c10"]
    assert [type(s.content) for s in submissions] == [Replacement, PatchText, PatchText]
    assert submissions[1].content == PatchText(patch=PATCH)


def test_markdown_files_of_a_folder_are_candidates_where_they_hold_code(tmp_path: Path) -> None:
    answer = "So:\n```python:m.py\na = 1\n```\n"
    for name, text in (("a.md", answer), ("README.md", answer), ("notes.md", "What was tried.\n")):
        (tmp_path / name).write_text(text)
    (submission,) = read_submissions(paths(tmp_path))
    assert submission == Submission(id=CandidateId("a"), content=ModelAnswer(answer=answer))
    (named,) = read_submissions(paths(tmp_path / "notes.md"))
    assert named.content == ModelAnswer(answer="What was tried.\n")


def test_what_is_the_path_of_nothing_may_be_of_the_repository(tmp_path: Path) -> None:
    def in_repository(text: str) -> list[tuple[str, Content, str]] | None:
        return [("opt/a", GitRef(ref=text), "a try")] if text.startswith("opt") else None

    (submission,) = read_submissions(paths("opt*"), in_repository)
    assert (submission.id, submission.content, submission.explanation) == (
        "opt_a",
        GitRef(ref="opt*"),
        "a try",
    )
    (tmp_path / "opt").mkdir()
    assert read_submissions(paths(tmp_path / "opt"), in_repository) == []
    with pytest.raises(UsageError, match="gone: No such file"):
        read_submissions(paths("gone"), in_repository)


def test_an_empty_folder_is_an_empty_list(tmp_path: Path) -> None:
    assert read_submissions(paths(tmp_path)) == []


def test_stems_are_made_unique_and_refs_keep_their_place(tmp_path: Path) -> None:
    for name in ("a.patch", "a.py", "a-2.py", "baseline.py"):
        (tmp_path / name).write_text(PATCH)
    sources = [
        CandidateSource("feature/fast", is_ref=True),
        *paths(tmp_path / "a.patch", tmp_path),
        CandidateSource("HEAD~1", is_ref=True),
    ]
    found = ids(sources)
    assert found[0] == "feature_fast"
    assert found[-1] == "HEAD~1"
    assert len(set(found)) == len(found) == 7
    assert "baseline" not in found
    assert read_submissions(sources)[0].content == GitRef(ref="feature/fast")


def test_line_endings_and_bytes_of_a_patch_are_kept(tmp_path: Path) -> None:
    data = b"--- a\r\n+++ b\r\n+\xe4\r\n"
    (tmp_path / "p.patch").write_bytes(data)
    content = read_submissions(paths(tmp_path))[0].content
    assert content.patch.encode("utf-8", "surrogateescape") == data


def test_python_is_read_by_its_coding_line(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_bytes("# coding: latin-1\nx = 'ä'\n".encode("latin-1"))
    (tmp_path / "q.py").write_bytes(b"x = '\xff'\n")
    good, bad = read_submissions(paths(tmp_path))
    assert "ä" in good.content.code
    assert "\ufffd" in bad.content.code


def test_a_manifest(tmp_path: Path) -> None:
    lines = [
        {"id": "one", "edits": {"m.py": "x = 1\n", "gone.py": None}},
        {"id": "two", "parent": "one", "explanation": "Because.", "patch": PATCH},
        {"replacement": "def f(): pass\n", "function": "m.py::f"},
        {"edits": [{"path": "m.py", "text": "x = 2\n"}]},
    ]
    path = tmp_path / "all.jsonl"
    path.write_text("\n\n".join(map(json.dumps, lines)) + "\n")
    one, two, three, four = read_submissions(paths(path))
    assert one.content == FileTexts(
        files=(FileText(path="m.py", text="x = 1\n"), FileText(path="gone.py", text=None))
    )
    assert (two.parent, two.explanation, two.content) == ("one", "Because.", PatchText(patch=PATCH))
    assert three.content == Replacement(code="def f(): pass\n", function="m.py::f")
    assert four.content == FileTexts(files=(FileText(path="m.py", text="x = 2\n"),))
    assert [three.id, four.id] == ["candidate-5", "candidate-7"]


def test_standard_input_is_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b'{"id": "a", "patch": "x"}\n')))
    assert ids(paths("-")) == ["a"]
    assert "once" in refused(paths("-", "-"))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("{", "not JSON"),
        ("[]", "object"),
        ("3", "object"),
        ('{"id": "a"}', "exactly one"),
        ('{"patch": "x", "replacement": "y"}', "exactly one"),
        ('{"patch": 3}', "patch must be a text"),
        ('{"id": 3, "patch": "x"}', "id must be a text"),
        ('{"id": "a/b", "patch": "x"}', "a/b"),
        ('{"id": "", "patch": "x"}', "printable"),
        ('{"id": "baseline", "patch": "x"}', "baseline"),
        ('{"id": "\\u001b[2J", "patch": "x"}', "printable"),
        ('{"pach": "x"}', "unknown field pach"),
        ('{"patch": "x", "function": "m.py::f"}', "replacement only"),
        ('{"edits": 3}', "edits must be"),
        ('{"edits": [{"path": "a"}]}', "edits must be"),
        ('{"edits": {"a": 3}}', "texts"),
        ('{"edits": [{"path": "a", "text": ""}, {"path": "a", "text": ""}]}', "twice"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, wrong: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"id": "good", "patch": "x"}\n' + line + "\n")
    said = refused(paths(path))
    assert said.startswith(f"{path}:2: ")
    assert wrong in said


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([{"id": "a", "patch": "x"}, {"id": "a", "patch": "y"}], "2 candidates"),
        ([{"id": "a", "parent": "a", "patch": "x"}], "ancestor"),
        ([{"id": "a", "parent": "b", "patch": "x"}, {"id": "b", "parent": "a", "patch": "y"}], "ancestor"),
    ],
)
def test_ids_that_clash_or_turn_in_circles(tmp_path: Path, lines: list[dict], wrong: str) -> None:
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert wrong in refused(paths(tmp_path))


def test_a_path_that_is_none_of_these(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("")
    assert "neither" in refused(paths(tmp_path / "x.txt"))
    assert "No such file" in refused(paths(tmp_path / "absent"))


@given(st.lists(st.text(), max_size=6))
def test_natural_order_does_not_depend_on_the_order_before(names: list[str]) -> None:
    backwards = list(reversed(names))
    assert sorted(backwards, key=natural) == sorted(names, key=natural)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = list(read_manifest("m", text))
    except UsageError as error:
        found = []
        said = error.message
    else:
        said = "m:"
    assert said.startswith("m:")
    assert all(is_id(candidate.submission.id) for candidate in found)
