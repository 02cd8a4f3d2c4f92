"""Hypothesis strategies for sound results: whatever the engine may return, and hostile text in every string."""

from __future__ import annotations

from dataclasses import asdict

from hypothesis import strategies as st

from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict
from codeflash_parallel.result.result_model import (
    STEPS,
    CandidateResult,
    FailedTest,
    FirstDifference,
    Flag,
    GroupSpeedup,
    LineProfile,
    LineTiming,
    RaceFigures,
    RunFault,
    RunResult,
    Speedup,
    TestCounts,
    ValueCounts,
)

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "[bold]x[/bold]",
    "\u202egnp.exe",
    "a\rb",
    "\x9b2J",
    "\ud800",
    "ä𝒳",
]
text = st.text(max_size=12) | st.sampled_from(HOSTILE)
line = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
count = st.integers(0, 10_000)
number = st.floats(allow_nan=True, allow_infinity=True)
timings = st.dictionaries(
    st.sampled_from(list(STEPS)) | st.text(min_size=1, max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
    max_size=6,
)
slots = st.just({}) | st.fixed_dictionaries(
    {"kind": st.sampled_from(["worktree", "reflink"]), "bytes": count, "inodes": count}
)
warm = st.just({}) | st.fixed_dictionaries(
    {"servers": count, "forks": count, "restarts": count, "unfit": st.lists(text, max_size=3)}
)
speedups = st.builds(
    lambda e, d, c, s: Speedup(estimate=e, low=e - d, high=e + d, clock=c, stage=s),
    st.floats(0.01, 100),
    st.floats(0, 1),
    st.sampled_from(["cpu", "wall"]),
    st.sampled_from(["race", "confirmation"]),
)
group_speedups = st.builds(lambda group, one: GroupSpeedup(group=group, **asdict(one)), text, speedups)
races = st.just({}) | st.fixed_dictionaries(
    {
        "workload": text,
        "why": text,
        "timed": text,
        "rounds": count,
        "void": count,
        "seconds": st.floats(0, 1e6),
        "budget_s": st.floats(0, 1e6),
        "groups": st.lists(
            st.fixed_dictionaries(
                {"group": text, "share": st.floats(0, 1), "tests": st.lists(text, max_size=3)}
            ),
            max_size=3,
        ),
        "unit_sd": st.none() | st.floats(0, 1),
    }
)
figures = st.builds(
    RaceFigures,
    stage=st.sampled_from(["race", "confirmation"]),
    rounds=count,
    dropped=text,
    dropped_after=count,
    cpu=st.none() | speedups,
    wall=st.none() | speedups,
    seen=st.none() | number,
    unseen=st.none() | number,
    peak_bytes=count,
    baseline_peak_bytes=count,
    calls_per_s=st.none() | number,
    baseline_calls_per_s=st.none() | number,
)
counts = st.builds(
    TestCounts,
    expected=count,
    passed=count,
    failed=count,
    missing=count,
    not_run=count,
    failed_ids=st.lists(text, max_size=60).map(tuple),
    missing_ids=st.lists(text, max_size=3).map(tuple),
)
values = st.builds(
    ValueCounts,
    compared=count,
    differing=count,
    accepted=count,
    repeated=count,
    unstable=count,
    derived=count,
    largest_seen=count,
    largest_fresh=count,
    derived_differing=count,
    outside=count,
    outside_differing=count,
    uncaptured=st.dictionaries(text, count, max_size=2),
    beside=count,
    uncompared=st.lists(text, max_size=2).map(tuple),
    level=st.sampled_from(Level),
)
differences = st.builds(
    FirstDifference,
    target=text,
    test=text,
    call=count,
    inputs=text,
    expected=text,
    got=text,
    derived=st.booleans(),
    smaller_inputs=text,
    smaller_expected=text,
    smaller_got=text,
    breaks=text,
)
flags = st.builds(Flag, kind=st.sampled_from(FlagKind), what=text, path=text, line=count)
failures = st.builds(FailedTest, id=text, phase=text, message=text)
profiles = st.builds(
    LineProfile,
    tracer=text,
    lines=st.lists(
        st.builds(LineTiming, path=text, line=count, hits=count, time_ns=count, text=text), max_size=4
    ).map(tuple),
)
faults = st.builds(
    RunFault,
    family=st.sampled_from(["usage", "environment", "internal", "interrupted"]),
    code=st.sampled_from(["BAD_FLAG", "RED_BASELINE", "UNEXPECTED", "SIGINT", "SIGTERM"]),
    message=text,
    hint=text,
)

STATUSES_BY_VERDICT = {
    Verdict.WINNER: CandidateStatus.WON,
    Verdict.TIE: CandidateStatus.TIED,
}


@st.composite
def candidates(
    draw: st.DrawFn, position: int, status: CandidateStatus, earlier: list[CandidateId]
) -> CandidateResult:
    parent = draw(st.none() | st.sampled_from(earlier)) if earlier else None
    return CandidateResult(
        id=CandidateId(f"c{position}-" + draw(text)),
        origin=draw(st.sampled_from(CandidateOrigin)),
        status=status,
        code=draw(st.sampled_from(Code)),
        reason=draw(text),
        parent=parent,
        lineage=(parent,) if parent is not None else (),
        explanation=draw(text),
        duplicate_of="baseline" if status == CandidateStatus.DUPLICATE else "",
        tests=draw(counts),
        values=draw(values),
        speedup=draw(st.none() | speedups),
        overhead_ms=draw(st.none() | number),
        gate_ms=draw(st.floats(min_value=0, max_value=1e9)),
        isolation_ms=draw(st.floats(min_value=0, max_value=1e9)),
        diff=draw(text),
        difference=draw(st.none() | differences),
        outside=draw(st.none() | differences),
        hints=draw(st.lists(text, max_size=2).map(tuple)),
        failures=draw(st.lists(failures, max_size=2).map(tuple)),
        group_speedups=draw(st.lists(group_speedups, max_size=2).map(tuple)),
        kept_slot=draw(text),
        reproduce=draw(text),
        notes=draw(st.lists(text, max_size=2).map(tuple)),
        timings_ms=draw(timings),
        served=draw(st.sampled_from(["", "collected", "imported", "new-process"])),
        served_why=draw(text),
        race=draw(st.none() | figures),
        flags=draw(st.lists(flags, max_size=2).map(tuple)),
    )


@st.composite
def run_results(draw: st.DrawFn) -> RunResult:
    """Build a result that keeps every rule of the contract."""
    verdict = draw(st.none() | st.sampled_from(Verdict))
    fault = draw(st.none() | faults) if verdict is None else None
    complete = verdict is not None or (fault is not None and draw(st.booleans()))
    top = {
        Verdict.WINNER: [CandidateStatus.WON],
        Verdict.TIE: [CandidateStatus.TIED, CandidateStatus.TIED],
    }.get(verdict, [])
    others = draw(
        st.lists(
            st.sampled_from(
                [s for s in CandidateStatus if s not in {CandidateStatus.WON, CandidateStatus.TIED}]
            ),
            max_size=4,
        )
    )
    judged: list[CandidateResult] = []
    for position, status in enumerate([*top, *others]):
        judged.append(draw(candidates(position, status, [c.id for c in judged])))
    first = judged[0].id if top else None
    return RunResult(
        run_id=draw(line),
        complete=complete,
        error=fault,
        verdict=verdict,
        winner=first,
        tie_set=tuple(c.id for c in judged[:2]) if verdict == Verdict.TIE else (),
        pass_env=draw(st.lists(text, max_size=2).map(tuple)),
        targets=draw(st.lists(text, max_size=2).map(tuple)),
        snapshot=draw(st.sampled_from(["", "a" * 40])),
        base=draw(text),
        steps_ms=draw(timings),
        slots=draw(slots),
        warm=draw(warm),
        race=draw(races),
        seed=draw(count),
        python=draw(text),
        tests_selected=draw(count),
        level=draw(st.sampled_from(Level)),
        quarantined=draw(st.lists(text, max_size=2).map(tuple)),
        warnings=draw(st.lists(text, max_size=2).map(tuple)),
        candidates=tuple(judged),
        winner_profile=draw(st.none() | profiles),
        baseline_profile=draw(st.none() | profiles),
        timings=draw(timings),
        load=draw(timings),
        repository=draw(text),
        summary=draw(text),
    )
