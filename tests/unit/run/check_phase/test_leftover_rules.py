"""What candidates leave behind: what is theirs to answer for, and what is not."""

from __future__ import annotations

import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.run.check_phase.leftover_rules import escaped, escapes, with_trace
from codeflash_parallel.workspace.slot.slot_residue import SlotResidue

SOUND = CheckOutcome(code=Code.OK, reason="fine")


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (SlotResidue(), ""),
        (SlotResidue(added=("out.txt", "data/x.json", ".hypothesis/examples/a")), ""),
        (SlotResidue(changed=("tests/test_a.py",)), "tests/test_a.py"),
        (SlotResidue(added=("sitecustomize.py",)), "sitecustomize.py"),
        (SlotResidue(added=("lib/fast.so", "a.pth")), "a.pth, lib/fast.so"),
        (SlotResidue(added=("sub/pytest.ini",)), "sub/pytest.ini"),
        (SlotResidue(added=(".git/hooks/post-checkout",)), ".git/hooks"),
        (SlotResidue(mirror=("config",)), "mirror's own files were changed: config"),
        (SlotResidue(changed=("a", "b", "c", "d")), "a, b, c and 1 more"),
    ],
)
def test_what_escapes(trace: SlotResidue, words: str) -> None:
    why = escaped(trace, ())
    assert bool(why) == bool(words)
    assert words in why


def test_what_the_baseline_leaves_is_nobody_s_fault() -> None:
    assert escaped(SlotResidue(changed=("golden.txt",)), ["golden.txt"]) == ""
    assert escaped(SlotResidue(added=("gen/parser_2.py",)), ["gen/parser_1.py"]) == ""
    assert escaped(SlotResidue(added=("parser_2.py",)), ["gen/parser_1.py"]) != ""


def test_a_verdict_becomes_a_rejection_and_a_rejection_gets_a_note() -> None:
    trace = SlotResidue(changed=("tests/test_a.py",))
    assert with_trace(SOUND, SlotResidue(), ()) is SOUND
    assert with_trace(SOUND, trace, ()).code is Code.ESCAPED
    failed = with_trace(CheckOutcome(code=Code.TESTS_FAILED, reason="x"), trace, ())
    assert failed.code is Code.TESTS_FAILED
    assert "tests/test_a.py" in failed.notes[0]


def test_in_a_race_nobody_answers_for_the_mirror() -> None:
    found = escapes(
        {"a": SlotResidue(changed=("x.py",), mirror=("config",)), "b": SlotResidue(mirror=("config",))}, ()
    )
    assert set(found) == {"a"}
    assert (found["a"].status, found["a"].code) == (CandidateStatus.REJECTED, Code.ESCAPED)
