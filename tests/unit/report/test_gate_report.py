"""The report of a gate: what is to be looked at comes first, and nothing in it acts."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.gate.gate_result import BenchmarkChange, GateResult, Qualification, SpeedBounds
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules
from codeflash_parallel.report.gate_report import headline, markdown, qualification, ranked, text

SLOW = BenchmarkChange(
    name="t.py::test_a[`x`]",
    verdict=Change.SLOWER,
    speed=SpeedBounds(estimate=1 / 1.1, low=1 / 1.2, high=None),
    clock="cpu",
)
NEW = BenchmarkChange(name="t.py::test_new", verdict="no_base", why="the base does not run it: <b>\x1b[31m")
FINE = BenchmarkChange(name="t.py::test_b", verdict=Change.NOT_SLOWER)
RESULT = GateResult(
    verdict=Change.SLOWER,
    why="1 of 3\nbenchmarks.",
    speed=SLOW.speed,
    benchmarks=(FINE, NEW, SLOW),
    base="b" * 40,
    head="",
    rules=GateRules(),
    budget_s=60.0,
    seconds=12.0,
    cores=2,
    load=(1.0, 2.5),
    notes=("A note.",),
)


def test_text_has_what_is_to_be_looked_at_first() -> None:
    assert [one.verdict for one in ranked(RESULT)] == ["slower", "no_base", "not_slower"]
    lines = text(RESULT).splitlines()
    assert lines[0] == headline(RESULT) == "slower: 1 of 3 benchmarks."
    assert lines[3].split() == ["t.py::test_a[`x`]", "slower", "+10.0", "%", "+20.0", "%"]
    assert "\x1b" not in text(RESULT)
    assert "base bbbbbbbbbbbb (the merge base), head the working tree" in text(RESULT)
    assert "2 cores, load 1.0 to 2.5; at the end without a second baseline" in text(RESULT)
    assert lines[-1] == "A note."


def test_markdown_shows_names_and_does_not_act_on_them() -> None:
    shown = markdown(RESULT)
    assert shown.startswith("**slower: 1 of 3 benchmarks.**\n\n| benchmark |")
    assert "\\`x\\`" in shown
    assert "<b>" not in shown


def test_qualifications() -> None:
    tells = Qualification(planted=0.05, seconds=21.0)
    assert qualification(RESULT) == ""
    assert (
        qualification(replace(RESULT, qualification=tells))
        == "This runner tells 5 % in 21 s (of 60). False alarms of the base against itself: none."
    )
    fails = replace(tells, seconds=None, false_alarms=("total",))
    said = qualification(replace(RESULT, qualification=fails))
    assert said.startswith("This runner does not tell 5 % in 60 s.")
    assert said.endswith(": total.")
    assert said in text(replace(RESULT, qualification=fails))
