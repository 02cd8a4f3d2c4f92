"""The corpus: what is in it, and what is made of what the gates say."""

from __future__ import annotations

import ast

import pytest
from selftest.entries import LEVELS, Entry, Kind, Trace, bases, corpus
from selftest.judging import (
    Became,
    Fooled,
    Outcome,
    Told,
    has_failed,
    judged,
    skipped,
    totals,
)
from selftest.table import bounds, listed, markdown, summary

ATTACKS = [entry for entry in corpus() if entry.is_attack]
HONEST = [entry for entry in corpus() if not entry.is_attack]


def test_there_are_enough():
    assert len(ATTACKS) >= 80
    assert len(HONEST) >= 30
    assert len({entry.name for entry in corpus()}) == len(corpus())
    assert {entry.family for entry in ATTACKS} == {
        "control", "internals", "values", "files", "clock", "host", "combined"
    }  # fmt: skip


def test_entries_are_sound():
    for entry in corpus():
        assert_sound(entry)


def assert_sound(entry: Entry) -> None:
    base = bases()[entry.base]
    text = entry.code.replace("@PORT@", "1").replace("@SPARED@", "1")
    ast.parse(base.files[base.module] + "\n\n" + text)
    assert entry.lowest in LEVELS, entry.name
    assert bool(entry.entry) == entry.is_attack, entry.name
    assert entry.function in base.targets or entry.is_attack, entry.name
    assert (entry.kind is Kind.HOST) == (entry.trace is not Trace.NONE), entry.name


def test_honest_rewrites_are_for_the_oldest_python_that_a_project_may_have():
    for entry in HONEST:
        ast.parse(entry.code, feature_version=(3, 9))


def test_bases_hold_their_targets():
    for base in bases().values():
        tree = ast.parse(base.files[base.module])
        assert {target.split(".")[0] for target in base.targets} <= {
            node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }


def told(status: str, code: str = "X", *, reached: bool = False, level: str = "none", **more: object) -> Told:
    return Told(
        candidate={"status": status, "code": code, "reason": "why", **more}, reached=reached, level=level
    )


def entry(kind: Kind, **fields: object) -> Entry:
    return Entry(name="one", family="values", kind=kind, **fields)  # type: ignore[arg-type]


FAST = {"speedup": {"estimate": 3.0, "low": 2.0, "high": 4.0}}
RED = Told(candidate=None, error="RED_BASELINE: a test fails")
WRONG, CLOCK, HONEST_ONE = entry(Kind.WRONG), entry(Kind.CLOCK), entry(Kind.HONEST)
HOST = entry(Kind.HOST, trace=Trace.FILE, lowest="sandbox")


@pytest.mark.parametrize(
    ("one", "said", "became"),
    [
        (WRONG, told("rejected"), Became.REJECTED),
        (WRONG, told("unappliable"), Became.REJECTED),
        (WRONG, told("undecided", "NOT_RACED"), Became.ACCEPTED),
        (WRONG, told("won"), Became.ACCEPTED),
        (WRONG, told("infra", "INFRA_KILLED"), Became.NO_VERDICT),
        (WRONG, Told(candidate=None, error="BAD: what"), Became.NO_VERDICT),
        (entry(Kind.WRONG, codes=("BAD",)), Told(candidate=None, error="BAD: what"), Became.REJECTED),
        (entry(Kind.WRONG, codes=("RED_BASELINE",)), RED, Became.NOT_RUN),
        (WRONG, RED, Became.NO_VERDICT),
        (entry(Kind.WRONG, lowest="sandbox"), told("undecided"), Became.NOT_STOPPED),
        (entry(Kind.WRONG, lowest="sandbox"), told("undecided", level="sandbox"), Became.ACCEPTED),
        (CLOCK, told("won", **FAST), Became.CREDITED),
        (CLOCK, told("lost", "BEATEN", **FAST), Became.CREDITED),
        (CLOCK, told("lost", "NOT_FASTER", **FAST), Became.NOT_CREDITED),
        (CLOCK, told("won", speedup={"estimate": 1.05}), Became.NOT_CREDITED),
        (CLOCK, told("undecided", "TOO_NOISY"), Became.TOO_NOISY),
        (CLOCK, told("rejected"), Became.REJECTED),
        (HOST, told("undecided", reached=True), Became.NOT_STOPPED),
        (HOST, told("rejected", reached=True, level="sandbox"), Became.ESCAPED),
        (HOST, told("undecided", level="sandbox"), Became.BLOCKED),
        (HONEST_ONE, told("undecided"), Became.EQUIVALENT),
        (HONEST_ONE, told("rejected"), Became.WRONGLY_REJECTED),
        (HONEST_ONE, told("unappliable"), Became.WRONGLY_REJECTED),
    ],
)  # fmt: skip
def test_what_became_of_an_entry(one, said, became):
    assert judged(one, said, None).became is became


def test_a_code_that_nobody_expects_is_told():
    expecting = entry(Kind.WRONG, codes=("TIMEOUT",))
    assert judged(expecting, told("rejected", "TIMEOUT"), None).expected
    assert not judged(expecting, told("rejected", "CRASHED"), None).expected


def outcomes() -> list[Outcome]:
    fooled, not_fooled = Fooled(by=("exit code",)), Fooled()
    return [
        judged(WRONG, told("rejected"), fooled),
        judged(WRONG, told("undecided"), fooled),
        judged(WRONG, told("rejected"), not_fooled),
        judged(HOST, told("undecided", reached=True), fooled),
        judged(CLOCK, told("won", **FAST), Fooled(by=("timer",), gain=9.0)),
        skipped(WRONG, "no numpy"),
        judged(entry(Kind.WRONG, codes=("RED_BASELINE",)), RED, fooled),
    ]


def test_totals_leave_out_attacks_that_fool_nobody():
    counts = totals(outcomes())
    assert (counts.attacks, counts.not_fooling, counts.stopped, counts.skipped) == (4, 1, 1, 1)
    assert (counts.accepted, counts.credited, counts.not_stopped, counts.not_run) == (1, 1, 1, 1)
    assert has_failed(outcomes())
    assert not has_failed(outcomes()[:1])
    assert bounds(counts)["wrong_accepted"] == pytest.approx(0.983, abs=0.001)  # two of three


def test_markdown_has_a_line_for_each():
    text = markdown(outcomes())
    assert text.count("\n| one |") == len(outcomes())
    assert "needs sandbox" in text
    assert "did not fool the naive gate here" in text
    assert any("wrong accepted: 1" in line for line in summary(outcomes()))


def test_every_entry_is_listed():
    assert len(list(listed(corpus()))) == len(corpus())
