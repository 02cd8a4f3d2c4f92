"""What candidates leave behind: what is theirs to answer for, and what is not."""

from __future__ import annotations

import pytest

from codeflash_parallel.behavior.plan import CheckOutcome
from codeflash_parallel.engine.aftermath import escaped, escapes, with_trace
from codeflash_parallel.model.outcome import Code, Status
from codeflash_parallel.worktrees.trace import Trace

SOUND = CheckOutcome(code=Code.OK, reason="fine")


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (Trace(), ""),
        (Trace(added=("out.txt", "data/x.json", ".hypothesis/examples/a")), ""),
        (Trace(changed=("tests/test_a.py",)), "tests/test_a.py"),
        (Trace(added=("sitecustomize.py",)), "sitecustomize.py"),
        (Trace(added=("lib/fast.so", "a.pth")), "a.pth, lib/fast.so"),
        (Trace(added=("sub/pytest.ini",)), "sub/pytest.ini"),
        (Trace(added=(".git/hooks/post-checkout",)), ".git/hooks"),
        (Trace(mirror=("config",)), "mirror's own files were changed: config"),
        (Trace(changed=("a", "b", "c", "d")), "a, b, c and 1 more"),
    ],
)
def test_what_escapes(trace: Trace, words: str) -> None:
    why = escaped(trace, ())
    assert bool(why) == bool(words)
    assert words in why


def test_what_the_baseline_leaves_is_nobody_s_fault() -> None:
    assert escaped(Trace(changed=("golden.txt",)), ["golden.txt"]) == ""
    assert escaped(Trace(added=("gen/parser_2.py",)), ["gen/parser_1.py"]) == ""
    assert escaped(Trace(added=("parser_2.py",)), ["gen/parser_1.py"]) != ""


def test_a_verdict_becomes_a_rejection_and_a_rejection_gets_a_note() -> None:
    trace = Trace(changed=("tests/test_a.py",))
    assert with_trace(SOUND, Trace(), ()) is SOUND
    assert with_trace(SOUND, trace, ()).code is Code.ESCAPED
    failed = with_trace(CheckOutcome(code=Code.TESTS_FAILED, reason="x"), trace, ())
    assert failed.code is Code.TESTS_FAILED
    assert "tests/test_a.py" in failed.notes[0]


def test_in_a_race_nobody_answers_for_the_mirror() -> None:
    found = escapes({"a": Trace(changed=("x.py",), mirror=("config",)), "b": Trace(mirror=("config",))}, ())
    assert set(found) == {"a"}
    assert (found["a"].status, found["a"].code) == (Status.REJECTED, Code.ESCAPED)
