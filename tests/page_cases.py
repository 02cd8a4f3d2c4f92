"""Runs of every kind for pages, and a strict look at a page: well-formed, self-contained, in order."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict
from codeflash_parallel.result.result_model import (
    CandidateResult,
    FailedTest,
    FirstDifference,
    Flag,
    LineProfile,
    LineTiming,
    RunFault,
    RunResult,
    Speedup,
    TestCounts,
    ValueCounts,
)
from codeflash_parallel.run.run_trace import ArmRounds, Moment, RunTrace

#: Texts that would act if they were markup, controls, or text without an end.
ATTACKS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "</pre></details></style><svg onload=alert(1)>",
    "\" onmouseover=\"alert(1)' x='",
    "]]>&lt;&#60;&amp;<!--",
    "\x00\x1b[31mred\x1b[0m\x9b2J",
    "\ud800\uffff\u202egnp.exe\u2028",
    "https://example.org/x.js",
    "x" * 1_000_000,
    "\u202e" * 10_000,
)

PROFILE = LineProfile(
    tracer="line_profiler",
    lines=tuple(
        LineTiming(path="m.py", line=n, hits=n, time_ns=n * 1000, text=f"    x = {n}") for n in range(60)
    ),
)


def judged(name: str, status: CandidateStatus, code: Code = Code.OK, **fields) -> CandidateResult:
    """Return a candidate's result."""
    common = {
        "origin": CandidateOrigin.PATCH,
        "reason": "So.",
        "diff": f"--- a\n+++ b\n@@ -1 +1 @@\n-old\n+{name}\n",
    }
    return CandidateResult(id=CandidateId(name), status=status, code=code, **{**common, **fields})


def fast(estimate: float, stage: str = "confirmation") -> Speedup:
    """Return a speedup with an interval of some width."""
    return Speedup(estimate=estimate, low=estimate * 0.9, high=estimate * 1.1, stage=stage)


CALLS = ValueCounts(compared=13, derived=40, largest_seen=10, largest_fresh=90, level=Level.DERIVED)
PASSED = TestCounts(expected=13, passed=13)
DIFFERENCE = FirstDifference(
    target="m.py::f", test="t.py::t", call=3, inputs="[1, 2]", expected="3", got="4", smaller_inputs="[1]",
    smaller_expected="1", smaller_got="2",
)  # fmt: skip
WON = judged("best", CandidateStatus.WON, speedup=fast(2.5), tests=PASSED, values=CALLS)
TIED = tuple(
    judged(n, CandidateStatus.TIED, speedup=fast(1.5), tests=PASSED, values=CALLS) for n in ("a", "b")
)
SLOWER = judged(
    "slower", CandidateStatus.LOST, Code.NOT_FASTER, speedup=fast(0.8, "race"), tests=PASSED, values=CALLS
)
WRONG = judged(
    "wrong", CandidateStatus.REJECTED, Code.VALUE_DIFFERS, tests=PASSED, difference=DIFFERENCE,
    values=replace(CALLS, differing=2), reproduce="python -m pytest t.py::t",
)  # fmt: skip
RED = judged(
    "red", CandidateStatus.REJECTED, Code.TESTS_FAILED,
    tests=TestCounts(expected=13, passed=9, failed=2, missing=1, not_run=1, failed_ids=("t.py::t", "t.py::u"),
                     missing_ids=("t.py::v",)),
    failures=(FailedTest(id="t.py::t", phase="call", message="E  assert 1 == 2"),),
)  # fmt: skip
OTHER_RED = replace(
    RED,
    id=CandidateId("other red"),
    tests=TestCounts(expected=13, passed=12, failed=1, failed_ids=("t.py::u",)),
)
REPAIR = judged("wrong-repair", CandidateStatus.LOST, Code.NOT_FASTER, parent=CandidateId("wrong"),
                origin=CandidateOrigin.REPAIR, lineage=(CandidateId("wrong"),))  # fmt: skip
REFINED = judged("best-refined", CandidateStatus.LOST, Code.BEATEN, parent=CandidateId("best"),
                 origin=CandidateOrigin.REFINEMENT, lineage=(CandidateId("best"),))  # fmt: skip
SAME = judged("same", CandidateStatus.DUPLICATE, Code.SAME_CODE, duplicate_of="best", speedup=fast(2.5))
UNCHANGED = judged("unchanged", CandidateStatus.DUPLICATE, Code.SAME_CODE, duplicate_of="baseline")


def run_of(verdict: Verdict | None, *candidates: CandidateResult, **fields) -> RunResult:
    """Return a run; the winner is the best of the candidates."""
    best = [one.id for one in candidates if one.status.is_best]
    tie = tuple(best) if verdict is Verdict.TIE else ()
    common = {"complete": verdict is not None, "summary": "It is so.", "repository": "/home/me/project"}
    return RunResult(
        run_id="20260101-000000-abcdef", verdict=verdict, winner=best[0] if best else None, tie_set=tie,
        candidates=candidates, **{**common, **fields},
    )  # fmt: skip


def many() -> RunResult:
    """Return a run of 200 candidates and 5,000 tests, with long texts everywhere."""
    tests = [f"tests/test_{n}.py::test_some_behaviour[{n}]" for n in range(5_000)]
    diff = "".join(f"{'+-'[n % 2]}{'x' * 90}\n" for n in range(1_000))
    some = []
    for n in range(200):
        failed = tuple(tests[25 * n : 25 * n + 50])
        some.append(
            judged(
                f"candidate-{n}", CandidateStatus.REJECTED, Code.TESTS_FAILED, diff=diff, reason="y" * 5_000,
                tests=TestCounts(expected=5_000, passed=4_000, failed=len(failed), not_run=900, failed_ids=failed),
                failures=tuple(FailedTest(id=t, phase="call", message="E " * 9_000) for t in failed[:9]),
                difference=replace(DIFFERENCE, inputs="z" * 90_000), outside=DIFFERENCE, speedup=fast(1 + n / 9),
                values=CALLS, explanation="w" * 9_000, hints=("h" * 900,) * 9, notes=("n" * 900,) * 9,
            )
        )  # fmt: skip
    return run_of(Verdict.NONE_CORRECT, *some, baseline_profile=PROFILE)


def many_trace() -> RunTrace:
    """Return the trace of such a run."""
    rounds = {f"candidate-{n}": ArmRounds("race", (1.5,) * 400, (1.4,) * 400) for n in range(200)}
    moments = [
        Moment(n * 10.0 + step, f"candidate-{n}", stage, slot)
        for n in range(200)
        for step, stage, slot in ((0.0, "checking", n % 8 + 1), (5.0, "racing", 0), (8.0, "finished", 0))
    ]
    return RunTrace(rounds=rounds, moments=tuple(moments))


def hostile(text: str) -> RunResult:
    """Return a run in which every text that others may write is this one."""
    difference = FirstDifference(
        target=text, test=text, call=1, inputs=text, expected=text, got=text, breaks=text, derived=True,
        smaller_inputs=text, smaller_expected=text, smaller_got=text,
    )  # fmt: skip
    profile = LineProfile(tracer=text, lines=(LineTiming(path=text, line=1, hits=1, time_ns=9, text=text),))
    counts = TestCounts(
        expected=9, passed=1, failed=1, missing=1, failed_ids=(text,), missing_ids=(text + "m",)
    )
    one = judged(
        text, CandidateStatus.REJECTED, Code.VALUE_DIFFERS, reason=text, diff=f"+{text}\n", explanation=text,
        difference=difference, outside=difference, hints=(text,), notes=(text,), reproduce=text, tests=counts,
        failures=(FailedTest(id=text, phase=text, message=text),), speedup=fast(1.5), diff_path=text,
        values=replace(CALLS, uncaptured={text: 1}, dropped={text: 2}, uncompared=(text,)), served_why=text,
        flags=(Flag(kind=next(iter(FlagKind)), what=text, path=text, line=1),), served="imported",
    )  # fmt: skip
    child = replace(one, id=CandidateId(text + "c"), parent=CandidateId(text), origin=CandidateOrigin.REPAIR)
    return run_of(
        Verdict.NONE_CORRECT, one, child, summary=text, targets=(text,), base=text, warnings=(text,), python=text,
        repository=text, baseline_profile=profile, winner_profile=profile, timings={text: 1.0},
    )  # fmt: skip


FAULT = RunFault(family="environment", code="RED_BASELINE", message="The tests fail.", hint="Mend them.")
STOPPED = RunFault(family="interrupted", code="SIGINT", message="The run was interrupted.")
RUNS = {
    "winner": run_of(Verdict.WINNER, WON, SLOWER, WRONG, RED, OTHER_RED, REPAIR, REFINED, SAME, UNCHANGED,
                     winner_profile=PROFILE, baseline_profile=PROFILE, targets=("m.py::f",)),
    "tie": run_of(Verdict.TIE, *TIED),
    "nothing faster": run_of(Verdict.NOTHING_FASTER, SLOWER),
    "too noisy": run_of(Verdict.TOO_NOISY, judged("a", CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED)),
    "all rejected": run_of(Verdict.NONE_CORRECT, WRONG, RED),
    "no candidates": run_of(Verdict.NONE_CORRECT),
    "error": run_of(None, error=FAULT),
    "interrupted": run_of(None, WRONG, error=STOPPED),
    "check only": run_of(Verdict.CHECKED, judged("a", CandidateStatus.UNDECIDED, Code.NOT_RACED, tests=PASSED)),
    "no run": RunResult(run_id="", complete=True, verdict=Verdict.NONE_CORRECT, summary="There are no candidates."),
}  # fmt: skip
TRACE = RunTrace(
    rounds={"best": ArmRounds("confirmation", (2.4, 2.6), (2.3, 99.0)), "slower": ArmRounds("race", (0.8,), ())},
    moments=(
        Moment(0.0, "", "baseline", 0),
        Moment(50.0, "", "behavior", 0),
        Moment(60.0, "best", "checking", 1),
        Moment(61.0, "wrong", "checking", 2),
        Moment(80.0, "wrong", "finished", 0),
        Moment(90.0, "best", "passed", 0),
        Moment(100.0, "", "race", 0),
        Moment(101.0, "best", "racing", 0),
        Moment(150.0, "best", "raced", 0),
        Moment(160.0, "best", "confirming", 0),
        Moment(190.0, "best", "raced", 0),
        Moment(200.0, "best", "finished", 0),
    ),
)  # fmt: skip


def assert_sound(html: str) -> ET.Element:
    """Parse a page as XML and check what every page keeps; return its root."""
    html.encode("utf-8")
    assert len(html) < 2_000_000
    root = ET.fromstring(html)
    elements = list(root.iter())
    assert not {one.tag for one in elements} & {
        "script",
        "iframe",
        "object",
        "img",
        "image",
        "form",
        "base",
        "use",
    }
    names = Counter(name for one in elements for name in one.attrib)
    assert not [name for name in names if name.startswith("on") or name in {"style", "src", "srcset"}]
    assert {one.attrib["href"] for one in elements if "href" in one.attrib} == {"#main", "data:,"}
    (style,) = root.iter("style")
    assert not re.search(r"url\(|@import|[<>&]", style.text or "")
    ids = Counter(one.attrib["id"] for one in elements if "id" in one.attrib)
    assert [name for name, count in ids.items() if count > 1] == []
    labels = Counter(one.attrib["aria-label"] for one in elements if "aria-label" in one.attrib)
    assert [name for name, count in labels.items() if count > 1] == []
    for one in elements:
        assert set(one.attrib.get("aria-labelledby", "").split()) <= ids.keys()
    levels = [int(one.tag[1]) for one in elements if re.fullmatch(r"h[1-6]", one.tag)]
    assert levels[:1] == [1]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for table in root.iter("table"):
        assert table.find("caption") is not None
        assert all(head.attrib.get("scope") for head in table.iter("th"))
    for plot in root.iter("svg"):
        assert plot.attrib["role"] == "img"
        assert plot[0].tag == "title"
        assert plot[1].tag == "desc"
    return root


def text_in(root: ET.Element) -> str:
    """Return the text of an element."""
    return "".join(root.itertext())
