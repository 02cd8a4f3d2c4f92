"""The report of a runner, as frozen values: a pure reading of its records.

Everything in here is a *claim* of the candidate's process; `compare` holds it against the baseline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

from codeflash_parallel.sandbox.runner_command import whole_number


@dataclass(frozen=True, kw_only=True, slots=True)
class TestOutcome:
    """One test: `passed`, `failed`, `error`, `skipped`, `xfailed` or `xpassed`.

    Attributes:
        ns: setup, call and teardown together.
        phase, message: of the phase that decided a failure.
    """

    # Not a test: pytest must not collect it where it is imported.
    __test__: ClassVar[bool] = False

    id: str
    outcome: str
    ns: int = 0
    phase: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOutcome:
    """One call of a target: digests of what it gave and of its arguments afterwards.

    Attributes:
        kind: `return` or `raise`.
        digest, floatless, typeless: of the outcome: exact, with floats masked, with types unified by value.
        after: of result and arguments after the call, taken together (aliasing shows).
        traces: what else the call left behind, as ``name=text;...``; of the baseline those that are stable.
        floats, skeleton: of a call that was measured: all floats in result and arguments, packed, and the
            digest of everything else.
        plain: the result as JSON, for the user's judge; empty where nobody judges, or with why in `untold`.
        arguments: digest of the arguments alone after the call, for a result that is judged.
        left: the arguments after the call, in words; empty where they are as before.
        space: of arguments that may be scratch space, as `_runner.replay.call_effects` tells it;
            empty: there are none.
        ns: CPU time of the call.
        copy_ns: CPU time of making its inputs, where it was made again.
        inputs: digest of all that a replay depends on; empty unless the inputs were captured.
        unencodable: why there are no digests; empty when there are.
        opaque: why the digests tell of a part the type only; empty where they tell all.
    """

    index: int
    test: str
    target: int
    kind: str
    type: str = ""
    digest: str = ""
    floatless: str = ""
    typeless: str = ""
    after: str = ""
    traces: str = ""
    floats: str = ""
    skeleton: str = ""
    space: Mapping[str, str] = field(default_factory=dict)
    plain: str = ""
    untold: str = ""
    arguments: str = ""
    text: str = ""
    args: str = ""
    left: str = ""
    captured: bool = False
    inputs: str = ""
    why: str = ""
    ns: int = 0
    copy_ns: int = 0
    unencodable: str = ""
    opaque: str = ""

    @property
    def essence(self) -> tuple[str, str, str]:
        """Return what must be equal for two outcomes to be the same."""
        return (self.kind, self.digest, self.after)

    def repeats(self, first: CallOutcome) -> bool:
        """Say whether the baseline gave the same before; of what is judged results may differ."""
        if self.plain and first.plain:
            return self.arguments == first.arguments
        return (self.essence, self.type) == (first.essence, first.type)


#: Texts that a record of a call has under the same names.
_TEXTS = [
    one.name for one in fields(CallOutcome) if one.type == "str" and one.name not in {"unencodable", "opaque"}
]


class CallDigests(NamedTuple):
    """A replayed call of which only the digests were wanted; as in `CallOutcome`.

    A tuple: there are hundreds of them for each candidate.

    Attributes:
        call: its index.
    """

    call: int
    kind: str
    type: str
    digest: str
    floatless: str
    typeless: str
    after: str
    traces: str
    ns: int


class DerivedInput(NamedTuple):
    """A fresh input.

    Attributes:
        base: the call that it was made from.
        breaks: the relation that it breaks; empty: it keeps all.
        raises: type of what the baseline raised when it was tried out; empty: it returned.
        size: length of the longest container or text in it.
    """

    base: int
    breaks: str = ""
    raises: str = ""
    size: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Derivation:
    """Result of deriving inputs for one target.

    Attributes:
        raised, slow: inputs that are not kept: the baseline raises what nobody meant, or takes too long.
        seen: length of the longest container or text that was observed.
        failed: type of the exception that ended making inputs, a defect of ours; empty: none.
    """

    raised: int = 0
    slow: int = 0
    seen: int = 0
    failed: str = ""


#: Outcomes of a whole test, worst first: a test is what its worst phase is.
_WORST_FIRST = ("error", "failed", "xpassed", "xfailed", "skipped", "passed")


#: The timing that a runner writes when it is confined: before that it runs no code of a candidate, and
#: what is written cannot be taken back.
CONFINED = "isolation"

#: Types of the parts of an answer.
_ANSWER = (int, str, str, str, str, str, str, str, int)


#: A trace that a call has if its result was the same after all calls, and its text where nobody looked.
LASTING, UNSEEN = "lasting", "unseen"


class ForeignRecord(ValueError):  # noqa: N818 - a fact about who wrote it
    """No runner writes such a record: a candidate's code did."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocatedFunction:
    """Counts of the project's functions that a timer saw on the stack, named as `Target` names them.

    Attributes:
        seen: how often each was on the stack.
        chains: of each look that found a target, its callers outwards, and how often these were found.
        unfit: functions whose arguments cannot be copied.
    """

    seen: Mapping[str, int] = field(default_factory=dict)
    chains: tuple[tuple[tuple[str, ...], int], ...] = ()
    unfit: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerReport:
    """All records of one runner.

    Attributes:
        finished: the end record arrived; without it the process died on the way.
        collected: ids of the tests that were to be run, in order.
        benchmarks: those of them that use pytest-benchmark's fixture.
        executed: outermost calls by (test id, target number); id ``""`` is import and collection.
        answers: of a replay, for the calls that were not put into words.
        globals: dotted names of the public data of the targets' modules.
        changed_globals: digest by name of those that replayed calls have changed.
        manners: how values told what they hold, and what was still to come after the calls.
        derived: by the number of a derived input: the call that it was made from, the relation that it
            breaks, and the type of exception that the baseline raised.
        accepted: of the user's judge: by the number of a question, why a result is not accepted.
        derivations: what came of deriving, by target.
        sources: digests of the bytes compiled for each proven path.
        outside: modules that only the user's own checkout could provide.
        spawned: tests that started processes, in which nobody counts calls.
        replaced: what of the test runner is no longer as it was before the project's code came.
        located: where the time goes, if that was asked for.
        served: the fork point it was forked at; empty in a new process.
        unswappable: why code objects could not be swapped; then nothing was run.
        error_where, error: the runner's own failure: in which part, and what it says.
    """

    finished: bool = False
    status: int = 0
    python: str = ""
    pytest: str = ""
    plugins: tuple[str, ...] = ()
    rootdir: str = ""
    inifile: str = ""
    collected: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    tests: Mapping[str, TestOutcome] = field(default_factory=dict)
    executed: Mapping[tuple[str, int], int] = field(default_factory=dict)
    calls: tuple[CallOutcome, ...] = ()
    answers: tuple[CallDigests, ...] = ()
    unreplayable: Mapping[int, str] = field(default_factory=dict)
    globals: frozenset[str] = frozenset()
    changed_globals: Mapping[str, str] = field(default_factory=dict)
    manners: frozenset[str] = frozenset()
    derived: Mapping[int, DerivedInput] = field(default_factory=dict)
    accepted: Mapping[int, str] = field(default_factory=dict)
    derivations: tuple[Derivation, ...] = ()
    sources: Mapping[str, frozenset[str]] = field(default_factory=dict)
    outside: tuple[tuple[str, str], ...] = ()
    timings_ns: Mapping[str, int] = field(default_factory=dict)
    spawned: tuple[str, ...] = ()
    replaced: frozenset[str] = frozenset()
    located: LocatedFunction = field(default_factory=LocatedFunction)
    served: str = ""
    unswappable: str = ""
    error_where: str = ""
    error: str = ""

    @property
    def tests_ns(self) -> int:
        """Return the time of all setups, calls and teardowns together."""
        return sum(t.ns for t in self.tests.values())


def read_report(records: Iterable[Mapping[str, Any]]) -> RunnerReport:
    """Gather the records of one runner into a report; unknown records are ignored.

    Raises:
        ForeignRecord: one is not of the form that a runner writes.
    """
    try:
        return _report(records)
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
        raise ForeignRecord(str(error)) from error


def _report(records: Iterable[Mapping[str, Any]]) -> RunnerReport:
    by_type: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        by_type[str(record.get("t"))].append(record)
    hello = _last(by_type["hello"])
    config = _last(by_type["config"])
    collected = _last(by_type["collected"])
    error = _last(by_type["error"])
    end = _last(by_type["end"])
    lasting = _lasting(by_type["spoiled"])
    return RunnerReport(
        finished=bool(end),
        status=whole_number(end.get("status", 0)),
        python=str(hello.get("python", "")),
        pytest=str(hello.get("pytest") or ""),
        plugins=_names(hello, "plugins"),
        rootdir=str(config.get("rootdir", "")),
        inifile=str(config.get("inifile") or ""),
        collected=_names(collected, "ids"),
        benchmarks=_names(collected, "benchmarks"),
        tests=_tests(by_type["passed"], by_type["phase"]),
        executed=_executed(by_type["executed"]),
        calls=_calls(by_type["call"], by_type["unencodable"], lasting),
        answers=tuple(_answers(by_type["answer"], lasting)),
        unreplayable={whole_number(r["i"]): str(r.get("why", "")) for r in by_type["unreplayable"]},
        globals=frozenset(_names(_last(by_type["globals"]), "names")),
        changed_globals=_texts(_last(by_type["globals"]).get("changed")),
        manners=frozenset(name for record in by_type["spoiled"] for name in _names(record, "manners")),
        derived={
            whole_number(r["i"]): DerivedInput(
                base=whole_number(r["base"]),
                breaks=str(r["breaks"]),
                raises=str(r["raises"]),
                size=whole_number(r["size"]),
            )
            for r in by_type["derived"]
        },
        accepted={whole_number(r["i"]): str(r["why"]) for r in by_type["accepted"]},
        derivations=tuple(map(_derivation, by_type["deriving"])),
        sources=_sources(by_type["source"]),
        outside=tuple((str(r.get("module", "")), str(r.get("path", ""))) for r in by_type["outside"]),
        timings_ns={str(r.get("name")): whole_number(r.get("ns", 0)) for r in by_type["timing"]},
        spawned=tuple(dict.fromkeys(str(r.get("id", "")) for r in by_type["spawned"])),
        replaced=frozenset(name for record in by_type["replaced"] for name in _names(record, "names")),
        located=_located(_last(by_type["located"])),
        served=str(_last(by_type["served"]).get("point", "")),
        unswappable=str(_last(by_type["unswappable"]).get("why", "")),
        error_where=str(error.get("where", "")),
        error=str(error.get("message", "")),
    )


def _last(records: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    return records[-1] if records else {}


def _names(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(map(str, record.get(key, ())))


def _located(record: Mapping[str, Any]) -> LocatedFunction:
    return LocatedFunction(
        seen={str(name): whole_number(count) for name, count in record.get("seen", {}).items()},
        chains=tuple((tuple(map(str, names)), whole_number(n)) for names, n in record.get("chains", ())),
        unfit=frozenset(_names(record, "unfit")),
    )


def _texts(found: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def _derivation(record: Mapping[str, Any]) -> Derivation:
    numbers = {name: whole_number(record[name]) for name in ("raised", "slow", "seen")}
    return Derivation(**numbers, failed=str(record["failed"]))


def _tests(passed: list[Mapping[str, Any]], phases: list[Mapping[str, Any]]) -> dict[str, TestOutcome]:
    """Read tests that simply passed, one record each, and the phases of all others."""
    grouped: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for phase in phases:
        grouped[str(phase["id"])].append(phase)
    tests: dict[str, TestOutcome] = {}
    for record in passed:
        test = str(record["id"])
        if test in grouped or test in tests:
            # It was run more than once: rerun, or under an id that several share.
            grouped[test] += ({"when": "call", "outcome": "passed", "ns": ns} for ns in record["ns"])
        else:
            tests[test] = TestOutcome(id=test, outcome="passed", ns=sum(map(whole_number, record["ns"])))
    return tests | {test: _test(test, parts, tests.get(test)) for test, parts in grouped.items()}


def _test(test: str, phases: list[Mapping[str, Any]], before: TestOutcome | None) -> TestOutcome:
    outcomes = [(_phase_outcome(p), p) for p in phases]
    worst, decisive = min(outcomes, key=lambda pair: _WORST_FIRST.index(pair[0]))
    failing = worst in {"failed", "error"}
    return TestOutcome(
        id=test,
        outcome=worst,
        ns=sum(whole_number(p.get("ns", 0)) for p in phases if p.get("when") != "collect")
        + (before.ns if before else 0),
        phase=str(decisive.get("when", "")) if failing else "",
        message=str(decisive.get("message", "")) if failing else "",
    )


def _phase_outcome(phase: Mapping[str, Any]) -> str:
    outcome, xfail = str(phase.get("outcome")), bool(phase.get("xfail"))
    if outcome == "failed":
        return "failed" if phase.get("when") == "call" else "error"
    if outcome == "skipped":
        return "xfailed" if xfail else "skipped"
    if outcome == "passed":
        return "xpassed" if xfail and phase.get("when") == "call" else "passed"
    return "passed"  # "rerun" and other plugins' words: the final report of that test decides


def _executed(records: list[Mapping[str, Any]]) -> dict[tuple[str, int], int]:
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for record in records:
        counts[str(record.get("test", record.get("id", ""))), whole_number(record["target"])] += whole_number(
            record["calls"]
        )
    return dict(counts)


def _calls(
    calls: list[Mapping[str, Any]], unencodable: list[Mapping[str, Any]], lasting: Mapping[int, str]
) -> tuple[CallOutcome, ...]:
    why = {whole_number(r["i"]): str(r.get("why", "")) for r in unencodable}
    return tuple(_call(record, why, lasting) for record in calls)


def _lasting(records: list[Mapping[str, Any]]) -> dict[int, str]:
    """Return whether results have lasted, for the calls of which it is not simply so: no text if not."""
    unseen = {whole_number(index): UNSEEN for record in records for index in record.get("unseen", ())}
    return unseen | {whole_number(index): "" for record in records for index in record["calls"]}


def _traces(traces: str, index: int, lasting: Mapping[int, str]) -> str:
    """Add to what a replayed call left behind whether its result has lasted."""
    text = lasting.get(index, "yes")
    return f"{traces};{LASTING}={text}" if traces and text else traces


def _answers(records: list[Mapping[str, Any]], lasting: Mapping[int, str]) -> Iterator[CallDigests]:
    """Yield the answers; what is none is no outcome."""
    for record in records:
        parts = record.get("of")
        if type(parts) is list and tuple(map(type, parts)) == _ANSWER:
            answer = CallDigests._make(parts)
            traces = _traces(answer.traces, answer.call, lasting)
            yield answer._replace(traces=traces, ns=whole_number(answer.ns))


def _call(
    record: Mapping[str, Any], unencodable: Mapping[int, str], lasting: Mapping[int, str]
) -> CallOutcome:
    get = record.get
    index, kind, digest = whole_number(record["i"]), str(get("kind") or ""), str(get("digest") or "")
    why = unencodable.get(index, "")
    texts = {name: str(get(name) or "") for name in _TEXTS}
    return CallOutcome(
        **{**texts, "traces": _traces(texts["traces"], index, lasting)},
        index=index,
        target=whole_number(get("target", 0)),
        space=_texts(get("space")),
        captured=bool(get("captured", False)),
        ns=whole_number(get("ns", 0)),
        copy_ns=whole_number(get("copy_ns", 0)),
        unencodable="" if digest else why or ("" if kind == "raise" else "no digest"),
        opaque=why if digest else "",
    )


def _sources(records: list[Mapping[str, Any]]) -> dict[str, frozenset[str]]:
    digests: dict[str, set[str]] = defaultdict(set)
    for record in records:
        digests[str(record["path"])].add(str(record["digest"]))
    return {path: frozenset(found) for path, found in digests.items()}
