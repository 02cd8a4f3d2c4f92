"""What candidates change, found out once."""

from __future__ import annotations

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    digest_of,
)

OLD = b"def f():\n    return 1\n"
FILES = {"m.py": OLD, "other.py": b"X = 1\n"}


def candidate(name: str, **files: bytes) -> Candidate:
    texts = {f"{stem}.py": text for stem, text in files.items()}
    edits = tuple(Edit(path=p, old_digest=digest_of(FILES[p]), new=text) for p, text in texts.items())
    return Candidate(id=CandidateId(name), origin=CandidateOrigin.EDITS, edits=edits)


def changes(reads: list[str] | None = None) -> Changes:
    def read(path: str) -> bytes | None:
        if reads is not None:
            reads.append(path)
        return FILES.get(path)

    return Changes([Target(path="m.py", qualname="f")], read)


def test_code_that_is_only_written_otherwise_is_no_change() -> None:
    found = changes()
    assert found.is_none(candidate("none"))
    assert found.is_none(candidate("comment", m=OLD + b"# that is all\n"))
    assert not found.is_none(candidate("two", m=OLD.replace(b"1", b"2")))


def test_what_the_code_adds_is_known_of_every_candidate() -> None:
    found = changes()
    flags = found.flags_of(candidate("looks", m=OLD.replace(b"return 1", b"import gc; return 1")))
    assert [(flag.what, flag.path, flag.line) for flag in flags] == [("gc", "m.py", 2)]
    assert found.flags_of(candidate("two", m=OLD.replace(b"1", b"2"))) == ()


def test_whether_a_candidate_loosens_is_found_out_once() -> None:
    reads: list[str] = []
    found = changes(reads)
    loose = candidate(
        "loose", m=b"def f():\n    try:\n        return 1\n    except ValueError:\n        return 2\n"
    )
    for _ in range(2):
        assert found.loosens(loose)
        assert not found.loosens(candidate("two", m=OLD.replace(b"1", b"2")))
    assert len(reads) == 4  # twice for each candidate, at the first question


def test_equal_code_has_equal_fingerprints() -> None:
    found = changes()
    two = OLD.replace(b"1", b"2")
    prints = [found.print_of(candidate(name, m=text)) for name, text in (("a", two), ("b", two + b"# b\n"))]
    assert prints[0] == prints[1] != found.print_of(candidate("c", m=OLD.replace(b"1", b"3")))


def test_how_far_a_check_may_be_served() -> None:
    found = changes()
    body = candidate("body", m=OLD.replace(b"1", b"2"))
    more = candidate("more", m=OLD + b"X = 1\n")
    elsewhere = candidate("elsewhere", other=b"X = 2\n")
    assert [found.serving(one).point for one in (body, more, elsewhere)] == [
        ForkPoint.COLLECTED,
        ForkPoint.IMPORTED,
        ForkPoint.NEW_PROCESS,
    ]
    assert found.known_serving(body) is found.serving(body)
    assert found.known_serving(elsewhere) is None


def test_nothing_is_found_out_twice() -> None:
    reads: list[str] = []
    found = changes(reads)
    one = candidate("one", m=OLD.replace(b"1", b"2"))
    found.look_at(one)
    count = len(reads)
    found.look_at(one)
    assert len(reads) == count


def test_functions_of_the_same_files_that_are_no_targets_lie_beside() -> None:
    old = b"def f():\n    return 1\n\n\nclass C:\n    def __init__(self):\n        pass\n\n    def g(self):\n        pass\n"
    found = Changes([Target(path="m.py", qualname="f")], {"m.py": old, "note.txt": b""}.get)
    edits = [
        Edit(
            path="m.py", old_digest=digest_of(old), new=old.replace(b"        pass\n", b"        return 2\n")
        ),
        Edit(path="new.py", old_digest=None, new=b"def h():\n    pass\n"),
        Edit(path="note.txt", old_digest=digest_of(b""), new=b"def i():\n    pass\n"),
    ]
    one = Candidate(id=CandidateId("c"), origin=CandidateOrigin.EDITS, edits=tuple(edits))
    assert [str(target) for target in found.beside(one)] == ["m.py::C.g"]
    assert [str(target) for target in found.touched(one)] == ["m.py::C.__init__", "m.py::C.g"]
