"""Kill the evaluator with SIGKILL at random moments, look at what is left, and let `resume` end the run.

    python benchmarks/crashes.py STATE [--stub 160] [--real 30] [--race 10] [--minutes 30] [--seed 1]

Each kill is a line of STATE; one that is there is not made again. A *stub* is a `check` of eight candidates
of a project whose tests take microseconds, with a command that repairs; a *real* one is a `check` of the
demonstration, nine candidates and its own test suite; a *race* is a `run` of the same. One kill in eight
comes before the run has begun; half of the others come when so many of its steps are stored, drawn evenly,
the other half at a moment that is drawn evenly over the time that an undisturbed run takes from then on. A
run that was over first is drawn again.
Exits 1 if any kill left a process for a second, changed the repository, lost or repeated a finding, or ended
with another verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from aftermath import picture, processes_of, worktrees_left  # noqa: E402
from harness import Place, Started, commit_all, copy_tree, make_place, wait_for  # noqa: E402

from codeflash_parallel.workspace.cleanup import recover  # noqa: E402

#: What the issue promises: nobody is alive after this, and the next start has cleaned up within that.
GONE_S, CLEAN_S = 1.0, 2.0
#: Longer than any run takes, however busy the machine is: races of others come first.
LONGEST_S = 2400.0

SLOW = """
def total(values):
    result = 0
    for value in values:
        result += value * value
    return result
"""
TESTS = """
from stub import total

def test_total():
    assert total([1, 2, 3]) == 14
    assert total([]) == 0
"""
RIGHT = "def total(values):\n    return sum({0} * {0} for {0} in values)\n"
WRONG = "def total(values):\n    return sum(values) + {0}\n"
#: Answers every request with a right function, and writes down that it was asked.
REPAIRER = """
import json, os, sys
request = json.load(sys.stdin)
with open(sys.argv[1], "a") as file:
    file.write(request["candidate"] + "\\n")
name = "v" + "".join(c for c in request["candidate"] if c.isalnum())
code = "def total(values):\\n    return sum(%s ** 2 for %s in values)\\n"
print(json.dumps({"replacement": code % (name, name)}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """A project with eight candidates.

    Attributes:
        arguments: of the command line, command first.
        asked: where the repairer writes down whom it was asked about; empty when there is none.
    """

    place: Place
    arguments: Sequence[str]
    asked: Path | None = None


def stub(folder: Path) -> Ground:
    """Make the stub project."""
    place = make_place(folder)
    for name, text in (("stub.py", SLOW), ("test_stub.py", TESTS)):
        (place.repository / name).write_text(text, encoding="utf-8")
    commit_all(place.repository)
    candidates = folder / "candidates"
    candidates.mkdir()
    for number in range(4):
        (candidates / f"right{number}.py").write_text(RIGHT.format(f"item{number}"), encoding="utf-8")
        (candidates / f"wrong{number}.py").write_text(WRONG.format(number + 1), encoding="utf-8")
    repairer, asked = folder / "repairer.py", folder / "asked"
    repairer.write_text(REPAIRER, encoding="utf-8")
    command = f"{sys.executable} {repairer} {asked}"
    arguments = ["check", "--function", "stub.py::total", "--candidates", str(candidates), "-j", "2"]
    return Ground(place=place, arguments=[*arguments, "--repair-command", command], asked=asked)


def real(folder: Path) -> Ground:
    """Make the demonstration's project, to be checked."""
    return _demonstration(folder, "check")


def race(folder: Path) -> Ground:
    """Make the demonstration's project, with a race as short as races may be."""
    return _demonstration(folder, "run", "--time-budget", "5")


def _demonstration(folder: Path, command: str, *options: str) -> Ground:
    place = make_place(folder)
    copy_tree(ROOT / "fixtures" / "demonstration" / "project", place.repository)
    commit_all(place.repository)
    arguments = [command, "--function", "taskgraph/ordering.py::topological_sort", "-j", "4", *options]
    candidates = str(ROOT / "fixtures" / "demonstration" / "candidates")
    return Ground(place=place, arguments=[*arguments, "--candidates", candidates])


GROUNDS: Mapping[str, Callable[[Path], Ground]] = {"stub": stub, "real": real, "race": race}


# --- one kill --------------------------------------------------------------------------------------------


def verdicts(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what is right and what is wrong, and why: what no noise of the machine may change."""
    return {c["id"]: _standing(c["status"], c["code"]) for c in document["candidates"]}


def _standing(status: str, code: str) -> str:
    return "equivalent" if status in {"won", "tied", "lost", "undecided"} else f"{status} {code}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """When a run is killed: some seconds after its start, or once some of its files are written."""

    after_s: float
    files: int


def kill(ground: Ground, moment: Moment, expected: Mapping[str, str]) -> dict[str, Any]:
    """Kill one run, look around, go on with it; return what was seen. Empty: it was over first."""
    place, before = ground.place, picture(ground.place.repository)
    runs_before = _runs(place.cache)
    if ground.asked is not None:
        ground.asked.unlink(missing_ok=True)
    started = place.start(*ground.arguments, "--output-format", "json")
    if moment.files:
        wait_for(lambda: _files(place.cache, runs_before) >= moment.files or _is_over(started), LONGEST_S)
    started.live_for(moment.after_s)
    if started.process.poll() is not None:
        started.finish()
        return {}
    started.process.kill()
    started.process.wait()
    gone_s, survivors = _until_gone(place.cache)
    errors = started.finish().errors
    seen: dict[str, Any] = {
        "killed_at_s": round(moment.after_s, 2),
        "files": moment.files,
        "phase": next((w for w in reversed(errors.split()) if w in PHASES), "start"),
        "gone_s": round(gone_s, 3),
        "survivors": survivors,
        "same_after_kill": picture(place.repository) == before,
        "cleaned_s": round(_cleaned_s(place.cache), 3),
    }
    begun = sorted(_runs(place.cache) - runs_before)
    seen |= _resumed(ground, begun[-1], expected) if begun else _anew(ground, expected)
    seen["same_at_end"] = picture(place.repository) == before
    seen["left"] = [*processes_of(place.cache), *worktrees_left(place.cache)]
    return seen


PHASES = frozenset({"snapshot", "baseline", "behavior", "race", "profile", "refine"})


def _is_over(started: Started) -> bool:
    return started.process.poll() is not None


def _runs(cache: Path) -> set[Path]:
    return {path.parent for path in cache.glob("*/runs/*/run.json")}


def _files(cache: Path, besides: set[Path]) -> int:
    """Return how many files a new run has: its request and its steps."""
    return sum(1 + len(_steps(run, "")) for run in _runs(cache) - besides)


def _steps(run: Path, *kinds: str) -> dict[Path, int]:
    """Return the stored steps of some kinds and when they were written."""
    found = [path for path in (run / "steps").rglob("[a-z]*.json") if path.name.startswith(kinds)]
    return {path: path.stat().st_mtime_ns for path in found}


#: How the names of stored steps begin.
CHECKS, ANSWERS, RACES = ("screen-", "rest-", "fresh-", "clean-"), ("repair-", "refinement-"), ("race-",)


def _until_gone(cache: Path) -> tuple[float, list[str]]:
    """Return how long processes of ours were seen after the kill, and who is there after a second."""
    begun, late = time.monotonic(), []
    while alive := processes_of(cache):
        now_s = time.monotonic() - begun
        late = late or (alive if now_s > GONE_S else [])
        if now_s > 10 * GONE_S:
            break
        time.sleep(0.01)
    return time.monotonic() - begun, late


def _cleaned_s(cache: Path) -> float:
    begun = time.monotonic()
    anyio.run(recover, cache)
    return time.monotonic() - begun


def _resumed(ground: Ground, run: Path, expected: Mapping[str, str]) -> dict[str, Any]:
    checks, answers, races = _steps(run, *CHECKS), _steps(run, *ANSWERS), _steps(run, *RACES)
    finished = ground.place.run("resume", run.name, "--output-format", "json", timeout_s=LONGEST_S)
    document = json.loads(finished.stdout or b"{}")
    return {
        "run": run.name,
        "resumed": True,
        "status": finished.status,
        "error": document.get("error") or ("" if document else finished.errors[-500:]),
        "known_checks": len(checks),
        "checks": len(_steps(run, *CHECKS)),
        "repeated_checks": _rewritten(checks),
        "known_answers": len(answers),
        "repeated_answers": _rewritten(answers),
        "known_races": len(races),
        "repeated_races": _rewritten(races),
        "same_verdicts": verdicts(document) == expected if document else False,
        "difference": _difference(verdicts(document), expected) if document else {},
        "verdict": document.get("verdict"),
        "winner": document.get("winner"),
    }


def _rewritten(steps: Mapping[Path, int]) -> int:
    """Return how many steps have been made again."""
    return sum(not path.exists() or path.stat().st_mtime_ns != made for path, made in steps.items())


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> dict[str, Any]:
    names = found.keys() | expected.keys()
    return {n: [expected.get(n), found.get(n)] for n in names if found.get(n) != expected.get(n)}


def _anew(ground: Ground, expected: Mapping[str, str]) -> dict[str, Any]:
    """Evaluate again: the run was killed before it had begun."""
    finished = ground.place.run(*ground.arguments, "--output-format", "json", timeout_s=LONGEST_S)
    document = json.loads(finished.stdout or b"{}")
    same = bool(document) and verdicts(document) == expected
    return {"resumed": False, "status": finished.status, "same_verdicts": same}


# --- the campaign ----------------------------------------------------------------------------------------


def is_bad(seen: Mapping[str, Any]) -> bool:
    """Say whether a kill broke a promise."""
    return bool(
        seen["survivors"]
        or seen["left"]
        or not (seen["same_after_kill"] and seen["same_at_end"] and seen["same_verdicts"])
        or seen["cleaned_s"] > CLEAN_S
        or any(seen.get(name) for name in ("repeated_checks", "repeated_answers", "repeated_races"))
    )


def kills(kind: str, numbers: Sequence[int], seed: int, ends_s: float) -> Iterator[dict[str, Any]]:
    """Make some kills on one ground; the first runs are undisturbed and tell what is expected."""
    with tempfile.TemporaryDirectory(prefix=f"crashes-{kind}-") as folder:
        ground = GROUNDS[kind](Path(folder))
        expected: dict[str, str] = {}
        level = ""
        spans: list[float] = []
        known: set[Path] = set()
        for _ in range(2):  # the second one has the baseline already, as most of the killed ones have
            begun = time.monotonic()
            first = ground.place.run(*ground.arguments, "--output-format", "json", timeout_s=LONGEST_S)
            spans.append(time.monotonic() - begun)
            starts_s = spans[-1] - json.loads(first.stdout)["timings"]["total"] / 1e3
            files = _files(ground.place.cache, known)
            known = _runs(ground.place.cache)
            document = json.loads(first.stdout)
            found, level = verdicts(document), document["isolation"]
            if expected and found != expected:
                raise SystemExit(f"{kind}: two undisturbed runs differ: {_difference(found, expected)}")
            expected = found
        for number in numbers:
            if time.monotonic() > ends_s:
                return
            chance = random.Random(f"{kind} {seed} {number}")
            if chance.random() < 0.25:  # the baseline's own runs are killed, too
                shutil.rmtree(next(ground.place.cache.glob("*/baselines")), ignore_errors=True)
                span_s = spans[0]
            else:
                span_s = spans[1]
            seen: dict[str, Any] = {}
            while not seen and time.monotonic() < ends_s:
                seen = kill(ground, _moment(chance, span_s, starts_s, files), expected)
            if seen:
                where = {"kind": kind, "number": number, "isolation": level, "load": os.getloadavg()[0]}
                yield {**where, **seen}


def _moment(chance: random.Random, span_s: float, starts_s: float, files: int) -> Moment:
    if chance.random() < 1 / 8:
        return Moment(after_s=chance.uniform(0, starts_s), files=0)
    if chance.random() < 1 / 2:
        return Moment(after_s=0.0, files=chance.randint(1, files))
    return Moment(after_s=chance.uniform(0, max(0.1, span_s - starts_s)), files=1)


def main() -> int:
    """Run what is not in the state yet, and sum up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("state", type=Path)
    parser.add_argument("--stub", type=int, default=160)
    parser.add_argument("--real", type=int, default=30)
    parser.add_argument("--race", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ends_s = time.monotonic() + 60 * options.minutes
    done = _done(options.state)
    for left, kind in zip(range(len(GROUNDS), 0, -1), reversed(GROUNDS), strict=True):
        there = {line["number"] for line in done if line["kind"] == kind}
        missing = [number for number in range(getattr(options, kind)) if number not in there]
        share_s = time.monotonic() + (ends_s - time.monotonic()) / left
        for line in kills(kind, missing, options.seed, share_s) if missing else ():
            with options.state.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            done.append(line)
            print(_short(line), flush=True)
    return _summary(done)


def _done(state: Path) -> list[dict[str, Any]]:
    if not state.exists():
        return []
    return [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines() if line.strip()]


def _short(line: Mapping[str, Any]) -> str:
    word = "BAD" if is_bad(line) else "ok"
    return f"{word} {line['kind']} {line['number']} at {line['killed_at_s']} s ({line['phase']})"


def _summary(done: Sequence[Mapping[str, Any]]) -> int:
    for kind in GROUNDS:
        lines = [line for line in done if line["kind"] == kind]
        if not lines:
            continue
        resumed = [line for line in lines if line["resumed"]]
        print(
            f"{kind}: {len(lines)} kills ({_levels(lines)}), {len(resumed)} resumed, "
            f"{len(lines) - len(resumed)} before the run had begun; "
            f"survivors after {GONE_S:g} s: {sum(bool(x['survivors']) for x in lines)} "
            f"(gone after at most {max(x['gone_s'] for x in lines):.2f} s); "
            f"repository changed: {sum(not (x['same_after_kill'] and x['same_at_end']) for x in lines)}; "
            f"cleaned up in at most {max(x['cleaned_s'] for x in lines):.2f} s; "
            f"other verdicts: {sum(not x['same_verdicts'] for x in lines)}; "
            f"findings known at the kill: {sum(x['known_checks'] for x in resumed)} checks, "
            f"{sum(x['known_answers'] for x in resumed)} answers, {sum(x['known_races'] for x in resumed)} "
            f"races; made twice: {sum(x['repeated_checks'] for x in resumed)}, "
            f"{sum(x['repeated_answers'] for x in resumed)}, {sum(x['repeated_races'] for x in resumed)}; "
            f"left behind at the end: {sum(bool(x['left']) for x in lines)}; bad: {sum(map(is_bad, lines))}"
        )
    bad = [line for line in done if is_bad(line)]
    for line in bad:
        print(f"BAD {json.dumps(line)}")
    return 1 if bad else 0


def _levels(lines: Sequence[Mapping[str, Any]]) -> str:
    """Say at which isolation levels; lines of before they were noted have none."""
    counted = Counter(line.get("isolation", "level not noted") for line in lines)
    return ", ".join(f"{count} at {level}" for level, count in sorted(counted.items()))


if __name__ == "__main__":
    sys.exit(main())
