"""What became of an entry of the corpus. Pure: what the gates said goes in, an outcome comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from selftest.entries import LEVELS, Entry, Kind

#: Nothing that a cheat gains may be credited beyond this.
MOST_CREDITED = 1.1

#: Statuses of candidates that were found not to be equivalent, or that were never run.
_REFUSED = frozenset({"rejected", "unappliable"})

#: Statuses of candidates that are held to be right.
_ACCEPTED = frozenset({"won", "tied", "lost", "undecided"})

#: Statuses that credit a speedup.
_CREDITED = frozenset({"won", "tied"})

#: Code of a run whose baseline fails: no candidate has run.
_RED = "RED_BASELINE"

#: Codes of the differential check.
VALUES = (
    *("VALUE_DIFFERS", "TYPE_DIFFERS", "FLOAT_DIFFERS", "INPUT_MUTATED", "STATE_DIFFERS"),
    *("NOT_ACCEPTED", "DIFFERS_OUTSIDE_OBSERVED"),
)

#: Code → the part of the gate that gives it.
_CAUGHT_BY = {
    **dict.fromkeys(("PATH_NOT_ALLOWED", "DOES_NOT_APPLY", "DOES_NOT_PARSE", "SAME_CODE"), "paths and form"),
    **dict.fromkeys(("TESTS_FAILED", "TESTS_MISSING"), "tests"),
    **dict.fromkeys(VALUES, "values"),
    **dict.fromkeys(("TIMEOUT", "OUT_OF_MEMORY", "TOO_SLOW", "CPU_LIMIT", "DISK_LIMIT"), "limits"),
    **dict.fromkeys(("LEAKED_PROCESS", "ESCAPED"), "afterwards"),
    **dict.fromkeys(
        ("NOT_FASTER", "NOT_CONFIRMED", "BEATEN", "REGRESSES_TEST", "GAIN_ONLY_ON_SEEN_INPUTS"), "race"
    ),
    **dict.fromkeys(("TOO_NOISY", "BUDGET_TOO_SMALL", "SUSPECT"), "race"),
    "WRONG_SOURCE": "source",
    "RUNNER_TAMPERED": "canaries",
    "CRASHED": "end record",
    "DIFFERS_IN_CLEAN_PROCESS": "confirmation",
}


class Became(StrEnum):
    """What became of one entry."""

    #: Found out, with a code of its own.
    REJECTED = "rejected"
    #: Held to be right, which it is; what it wanted of the host it did not get.
    BLOCKED = "blocked"
    #: Held to be right, which it is; nothing that it gained was credited.
    NOT_CREDITED = "not credited"
    #: A cheat that was credited nothing because the machine was too noisy to credit anybody: no evidence.
    TOO_NOISY = "too noisy"
    #: An attack that the gate let through.
    ACCEPTED = "ACCEPTED"
    #: A cheat that was credited more than `MOST_CREDITED`.
    CREDITED = "CREDITED"
    #: It got what it wanted, at a level that must stop it.
    ESCAPED = "ESCAPED"
    #: It got what it wanted, and no better is promised at this level.
    NOT_STOPPED = "not stopped"
    #: An honest candidate that was found equivalent.
    EQUIVALENT = "equivalent"
    #: An honest candidate that was not.
    WRONGLY_REJECTED = "REJECTED"
    #: The machinery failed: no verdict.
    NO_VERDICT = "no verdict"
    #: No candidate was run: what it is after is something that the baseline, too, has not got at this level.
    NOT_RUN = "refused before it ran"
    #: Not run: the interpreter has not got what it needs.
    SKIPPED = "skipped"


#: What a selftest must not find.
BAD = frozenset(
    {Became.ACCEPTED, Became.CREDITED, Became.ESCAPED, Became.WRONGLY_REJECTED, Became.NO_VERDICT}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fooled:
    """What naive judges made of an attack.

    Attributes:
        by: names of those that it fooled; empty: none, here.
        gain: what the in-process timer showed, 0.0: it was not asked.
    """

    by: tuple[str, ...] = ()
    gain: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What our gate said.

    Attributes:
        candidate: its entry in the run's document; `None`: the run had no result.
        error: code of the run's error, and its message.
        reached: it has got what it wanted of the host.
        level: isolation level of the run.
    """

    candidate: Mapping[str, Any] | None
    error: str = ""
    reached: bool = False
    level: str = "none"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One line of the table.

    Attributes:
        level: isolation level of the run.
        needs: the level that must stop it, where that is higher.
        code, reason: of the gate.
        caught_by: part of the gate; empty when it was not caught.
        credited: speedup that was credited.
        expected: the code is one of those that the corpus lists.
        fooled: `None` where nobody was asked.
    """

    name: str
    family: str
    became: Became
    level: str
    needs: str = ""
    code: str = ""
    reason: str = ""
    caught_by: str = ""
    credited: float = 1.0
    expected: bool = True
    fooled: Fooled | None = None

    @property
    def counts(self) -> bool:
        """Say whether it counts: an attack that fools nobody is none."""
        return self.fooled is None or bool(self.fooled.by)


def skipped(entry: Entry, why: str) -> Outcome:
    """Return the line of an entry that cannot be run here."""
    return Outcome(name=entry.name, family=entry.family, became=Became.SKIPPED, level="", reason=why)


def judged(entry: Entry, told: Told, fooled: Fooled | None) -> Outcome:
    """Say what became of an entry."""
    became = _became(entry, told)
    candidate = told.candidate or {}
    code = str(candidate.get("code", told.error.partition(":")[0]))
    rejected = became is Became.REJECTED
    return Outcome(
        name=entry.name,
        family=entry.family,
        became=became,
        level=told.level,
        needs=entry.lowest if _is_below(told.level, entry.lowest) else "",
        code=code,
        reason=str(candidate.get("reason", told.error)),
        caught_by=_caught_by(became, code),
        credited=_credit(candidate),
        expected=not (rejected and entry.codes) or code in entry.codes,
        fooled=fooled,
    )


def _became(entry: Entry, told: Told) -> Became:
    candidate = told.candidate or {}
    status, code = str(candidate.get("status", "")), str(candidate.get("code", ""))
    if entry.kind is Kind.HOST and told.reached:
        return Became.NOT_STOPPED if _is_below(told.level, entry.lowest) else Became.ESCAPED
    if status in _REFUSED:
        return Became.WRONGLY_REJECTED if entry.kind is Kind.HONEST else Became.REJECTED
    if status not in _ACCEPTED or code == "CANCELLED" or code.startswith("INFRA_"):
        return _without_verdict(entry, told)
    return _let_through(entry, told)


def _let_through(entry: Entry, told: Told) -> Became:
    """Judge one that was held to be right."""
    match entry.kind:
        case Kind.HONEST:
            return Became.EQUIVALENT
        case Kind.HOST:
            return Became.BLOCKED
        case Kind.CLOCK:
            return _raced(told.candidate or {})
        case Kind.WRONG:
            return Became.NOT_STOPPED if _is_below(told.level, entry.lowest) else Became.ACCEPTED


def _raced(candidate: Mapping[str, Any]) -> Became:
    if _credit(candidate) > MOST_CREDITED:
        return Became.CREDITED
    unsure = candidate.get("code") in {"TOO_NOISY", "BUDGET_TOO_SMALL"}
    return Became.TOO_NOISY if unsure else Became.NOT_CREDITED


def _without_verdict(entry: Entry, told: Told) -> Became:
    """Judge a run that says nothing of the candidate: refused as a whole is as good as rejected."""
    error = told.error.partition(":")[0]
    if error in entry.codes:
        return Became.NOT_RUN if error == _RED else Became.REJECTED
    code = str((told.candidate or {}).get("code", ""))
    return Became.REJECTED if code and code in entry.codes else Became.NO_VERDICT


def _is_below(level: str, lowest: str) -> bool:
    return level in LEVELS and LEVELS.index(level) < LEVELS.index(lowest)


def _credit(candidate: Mapping[str, Any]) -> float:
    speedup = candidate.get("speedup")
    beaten = candidate.get("code") == "BEATEN"
    known = speedup and (candidate.get("status") in _CREDITED or beaten)
    return float(speedup["estimate"]) if known and speedup else 1.0


def _caught_by(became: Became, code: str) -> str:
    if became is Became.BLOCKED:
        return "isolation"
    if became is Became.NOT_CREDITED:
        return "race"
    return _CAUGHT_BY.get(code, "gate") if became is Became.REJECTED else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Counts over a whole selftest.

    Attributes:
        attacks: that count: they fooled a naive gate or timer here, or nobody was asked.
        not_fooling: attacks that fooled nobody here, and so do not count.
        stopped: rejected, blocked or not credited.
        accepted, credited, escaped, without_verdict: of all attacks, whether they count or not.
        not_stopped: at a level that does not promise it; these need a higher one.
        too_noisy: cheats that could not be raced well enough to be credited anything.
        honest: honest candidates that were judged; `rejected`: of those.
        not_run: attacks on what the baseline has not got either at this level; counted nowhere else.
    """

    attacks: int = 0
    not_fooling: int = 0
    stopped: int = 0
    accepted: int = 0
    credited: int = 0
    escaped: int = 0
    not_stopped: int = 0
    too_noisy: int = 0
    without_verdict: int = 0
    honest: int = 0
    rejected: int = 0
    skipped: int = 0
    not_run: int = 0


def totals(outcomes: Sequence[Outcome]) -> Totals:
    """Count."""
    honest = [one for one in outcomes if one.became in {Became.EQUIVALENT, Became.WRONGLY_REJECTED}]
    ran = [one for one in outcomes if one.became not in {Became.SKIPPED, Became.NOT_RUN}]
    attacks = [one for one in ran if one.family != "honest"]

    def number(*became: Became) -> int:
        return sum(one.became in became for one in outcomes)

    return Totals(
        attacks=sum(one.counts for one in attacks),
        not_fooling=sum(not one.counts for one in attacks),
        stopped=sum(
            one.counts and one.became in {Became.REJECTED, Became.BLOCKED, Became.NOT_CREDITED}
            for one in attacks
        ),
        accepted=number(Became.ACCEPTED),
        credited=number(Became.CREDITED),
        escaped=number(Became.ESCAPED),
        not_stopped=number(Became.NOT_STOPPED),
        too_noisy=number(Became.TOO_NOISY),
        without_verdict=number(Became.NO_VERDICT),
        honest=len(honest),
        rejected=number(Became.WRONGLY_REJECTED),
        skipped=number(Became.SKIPPED),
        not_run=number(Became.NOT_RUN),
    )


def has_failed(outcomes: Sequence[Outcome]) -> bool:
    """Say whether anything was found that must not be."""
    return any(one.became in BAD for one in outcomes)
