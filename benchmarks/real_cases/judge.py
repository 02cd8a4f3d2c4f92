"""Judge a run of a real case: what is known of its candidates against what the tool said of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

#: Classes of candidates that may win.
HONEST = frozenset({"right", "neutral", "slower"})
#: Classes of candidates whose true speedups are measured (`truth.py`).
TIMED = frozenset({"right", "slower"})
#: Classes of candidates that give other values than the baseline; a gamed one gives the same.
UNEQUAL = frozenset({"wrong", "subtle-wrong"})
#: Statuses of candidates that are called equivalent to the baseline.
EQUIVALENT = frozenset({"won", "tied", "lost", "undecided"})
#: Codes of rejections that do not say that a candidate is wrong.
NOT_WRONG = frozenset({"TOO_SLOW"})
#: A run should take no longer than so many seconds, and so many times the project's tests alone.
AIM_BASE_S = 30.0
AIM_FACTOR = 10.0
#: The same for the median run.
MEDIAN_BASE_S = 15.0
MEDIAN_FACTOR = 6.0
#: A candidate is a true winner whose true speedup is no further than this from the best.
TIE = 1.05


class Found(StrEnum):
    """What was named as the fastest, against the truth."""

    #: True winners only.
    RIGHT = "right"
    #: A true winner, tied with other right candidates.
    AMONG = "in a tie"
    #: Nothing, and the workload that was timed shows nothing.
    NOTHING = "right: nothing on this workload"
    #: Honest candidates, no true winner, or ones that are not faster.
    OTHER = "another"
    #: A wrong or gamed candidate, alone or in the tie.
    FALSE = "false"
    #: Nothing, though there is a winner.
    NOBODY = "nobody"
    #: The run did not end, or has no result.
    UNFINISHED = "unfinished"

    @property
    def meets_truth(self) -> bool:
        return self in {Found.RIGHT, Found.AMONG, Found.NOTHING}


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """A run of a case against its facts; names of candidates are in the order of the facts."""

    found: Found
    verdict: str
    named: tuple[str, ...] = ()
    truth: tuple[str, ...] = ()
    #: Wrong or gamed ones that won or tied.
    accepted: tuple[str, ...] = ()
    #: Wrong ones that did not win, and are called equivalent without a hint.
    called_equivalent: tuple[str, ...] = ()
    #: The same, but the report hints at a difference.
    hinted: tuple[str, ...] = ()
    #: Honest ones that are rejected, with the code.
    rejected: Mapping[str, str] = field(default_factory=dict)
    #: Honest ones at which a hint points that the notes do not allow.
    wrongly_hinted: tuple[str, ...] = ()
    #: Correct ones of which the race said nothing, with the code.
    undecided: Mapping[str, str] = field(default_factory=dict)
    #: Those that were not judged: cancelled, or the machinery failed, with the code.
    unjudged: Mapping[str, str] = field(default_factory=dict)
    workload: str = ""
    seconds: float = 0.0
    #: The seconds that the run should not exceed.
    aim_s: float = 0.0
    times_plain: float = 0.0
    #: What the median run should not exceed.
    median_aim_s: float = 0.0
    phases_s: Mapping[str, float] = field(default_factory=dict)
    #: How many right, neutral and slower candidates the run had.
    honest: int = 0

    @property
    def right(self) -> bool:
        """Whether the case is right by the rules of the bench."""
        return self.found.meets_truth and not self.accepted and not self.rejected

    def __str__(self) -> str:
        lists = {
            "wrongly accepted": self.accepted,
            "wrongly rejected": tuple(f"{name} ({code})" for name, code in self.rejected.items()),
            "called equivalent": self.called_equivalent,
            "undecided": tuple(self.undecided),
            "not judged": tuple(self.unjudged),
        }
        said = [f"{title}: {', '.join(names)}" for title, names in lists.items() if names]
        named = f"{self.verdict} {', '.join(self.named)}".strip()
        times = f"{self.seconds:.0f} s, {self.times_plain:.0f}x plain"
        return "; ".join([f"{'right' if self.right else 'WRONG'}: {named} ({self.found})", times, *said])


def judge(facts: Mapping[str, Any], line: Mapping[str, Any]) -> Judgement:
    """Hold a line of `run.py` against the facts of its case."""
    document = line["document"]
    plain_s = line["plain_s"]
    seconds = {
        "seconds": line["wall_s"],
        "aim_s": AIM_BASE_S + AIM_FACTOR * plain_s,
        "median_aim_s": MEDIAN_BASE_S + MEDIAN_FACTOR * plain_s,
        "times_plain": line["wall_s"] / plain_s,
    }
    if document is None:
        verdict = "unfinished" if line["unfinished"] else f"exit code {line['exit_code']}"
        return Judgement(found=Found.UNFINISHED, verdict=verdict, **seconds)
    known = {each["name"]: each for each in facts["candidates"]}
    told = {each["id"]: each for each in document["candidates"] if each["id"] in known}
    # In the order of the facts; a run that ended early may lack some.
    told = {name: told[name] for name in known if name in told}
    named = _named(document, told)
    truth = _truth(facts, told, timed := _timed(line))
    truth = (*truth, *(n for n in named if n not in truth and _overlaps(n, truth, told, known)))
    false = tuple(n for n in named if known[n]["class"] not in HONEST and not known[n].get("unseeable"))
    equal = [n for n, each in told.items() if each["status"] in EQUIVALENT and n not in named]
    unequal = [n for n in equal if known[n]["class"] in UNEQUAL and not known[n].get("unseeable")]
    honest = {n: each for n, each in told.items() if known[n]["class"] in HONEST}
    return Judgement(
        found=Found.UNFINISHED
        if line["unfinished"]
        else _found(document, known, named, truth, false, _nothing_faster(facts, told, timed, document)),
        verdict=_verdict(line, document),
        named=named,
        truth=truth,
        accepted=false,
        called_equivalent=tuple(n for n in unequal if not told[n]["outside"]),
        hinted=tuple(n for n in unequal if told[n]["outside"]),
        rejected={n: each["code"] for n, each in honest.items() if _wrongly_rejected(known[n], each)},
        wrongly_hinted=tuple(
            n
            for n, each in honest.items()
            if each["outside"] and each["status"] in EQUIVALENT and not known[n].get("hint_ok")
        ),
        undecided={n: each["code"] for n, each in told.items() if each["status"] == "undecided"},
        unjudged={n: each["code"] for n, each in told.items() if each["status"] in {"cancelled", "infra"}},
        workload=_workload(document),
        honest=len(honest),
        phases_s={name: ms / 1000 for name, ms in (document["timings"] or {}).items() if name != "total"},
        **seconds,
    )


def _wrongly_rejected(known: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    rejected = told["status"] in {"rejected", "unappliable"} and told["code"] not in NOT_WRONG
    return rejected and not known.get("rejection_ok")


def _verdict(line: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    if line["unfinished"]:
        return "unfinished"
    if document["error"]:
        return str(document["error"]["code"])
    return str(document["verdict"])


def _workload(document: Mapping[str, Any]) -> str:
    return str((document["race"] or {}).get("workload") or "")


def _named(document: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return who won or tied, and their duplicates."""
    winners = {*document["tie_set"], *([document["winner"]] if document["winner"] else [])}
    return tuple(n for n, each in told.items() if n in winners or each["duplicate_of"] in winners)


def _timed(line: Mapping[str, Any]) -> str:
    """Return which of a candidate's true speedups belongs to what a run timed."""
    return "alone" if line.get("supplied") else "tests"


def _truth(facts: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]], timed: str) -> tuple[str, ...]:
    """Return the true winners: those of the target alone, and those of what was timed, where they are known.

    Others take their place where the notes allow to reject or to hint at them.
    """
    known = {each["name"]: each for each in facts["candidates"]}
    rejected = {n for n, each in told.items() if each["status"] == "rejected"}
    hinted = {n for n, each in told.items() if each["outside"]}
    listed = facts.get("acceptable_winners") or facts.get("expected_winner_ties_7pct")
    instead = tuple(facts.get("winners_if_those_are_rejected", ()))
    winners = tuple(listed or ())
    if (rejected | hinted) & set(winners):
        winners = (*(n for n in winners if n not in rejected), *instead)
    excused = _excused(told, known)
    doubtful = excused | {n for n in hinted if known[n].get("hint_ok")}
    speedups = _speedups(facts, timed)
    tied = (*_tie_set(speedups, excused), *_tie_set(speedups, doubtful))
    if timed == "alone" and speedups:
        winners = ()  # they were timed on another workload than this one
    elif listed is None and not speedups:
        winners = tuple(n for n, each in known.items() if each["class"] == "right" and n not in rejected)
    return tuple(dict.fromkeys((*winners, *tied)))


def _excused(told: Mapping[str, Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the candidates that were rejected and may be."""
    return {n for n, each in told.items() if each["status"] == "rejected" and known[n].get("rejection_ok")}


def _speedups(facts: Mapping[str, Any], timed: str) -> dict[str, float]:
    """Return the true speedups of the right candidates, and of those meant to be slower: some are not."""
    timed_ones = [each for each in facts["candidates"] if each["class"] in TIMED]
    found = {each["name"]: (each, each.get("truth", {}).get(timed)) for each in timed_ones}
    return {
        n: gain for n, (each, gain) in found.items() if gain and (each["class"] == "right" or gain >= TIE)
    }


def _tie_set(speedups: Mapping[str, float], without: Collection[str]) -> list[str]:
    left = {n: speedup for n, speedup in speedups.items() if n not in without}
    best = max(left.values(), default=0.0)
    return [n for n, speedup in left.items() if speedup * TIE >= best]


def _overlaps(
    name: str,
    truth: Collection[str],
    told: Mapping[str, Mapping[str, Any]],
    known: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Return whether a right candidate's interval meets that of a true winner."""
    own = told[name].get("speedup")
    others = [told[n].get("speedup") for n in truth if n in told]
    meets = any(own and each and own["low"] <= each["high"] and each["low"] <= own["high"] for each in others)
    return known[name]["class"] in TIMED and meets


def _nothing_faster(
    facts: Mapping[str, Any], told: Mapping[str, Mapping[str, Any]], timed: str, document: Mapping[str, Any]
) -> bool:
    """Return whether nobody is faster on what was timed, apart from those that may be rejected and are."""
    excused = _excused(told, {each["name"]: each for each in facts["candidates"]})
    speedups = _speedups(facts, timed)
    best = max((speedup for n, speedup in speedups.items() if n not in excused), default=None)
    right = any(each["class"] == "right" for each in facts["candidates"])
    if (best is not None and best < TIE) or not right:
        return True
    return timed == "tests" and _workload(document) in facts.get("nothing_faster_on", ())


def _found(
    document: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    named: tuple[str, ...],
    truth: tuple[str, ...],
    false: tuple[str, ...],
    nothing_faster: bool,  # noqa: FBT001 - private
) -> Found:
    if false:
        return Found.FALSE
    if not document["complete"]:
        return Found.UNFINISHED
    if not named:
        nothing = document["verdict"] == "nothing_faster"
        return Found.NOTHING if nothing and nothing_faster else Found.NOBODY
    unseeable = {name for name in named if known[name].get("unseeable")}
    if set(named) <= {*truth, *unseeable}:
        return Found.RIGHT
    right = all(known[name]["class"] == "right" for name in named if name not in unseeable)
    return Found.AMONG if right and set(named) & {*truth, *unseeable} else Found.OTHER
