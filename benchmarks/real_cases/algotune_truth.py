"""Say what is true of the solvers of AlgoTune, without the tool, and write it to the cases' facts.

    python benchmarks/real_cases/algotune_truth.py --repositories '/folder/{owner}+{name}/repo' --cases a,b

A solver is right whose solutions the task's own check accepts: those of the tests' problems and fresh
ones, of the tests' sizes and between them. CPU seconds count, with one thread, the best of several processes
of the reference and the solvers in turn.
"""

from __future__ import annotations

import argparse
import copy
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import build

#: Processes in which each side is timed, and CPU seconds and times that a problem is solved in each.
ROUNDS = 2
EACH_S, MOST = 0.08, 15
#: A solver that takes so long for all problems is given up.
LIMIT_S = 240.0
#: Seeds of the fresh problems; those of the tests begin at 0.
FRESH_SEEDS = range(1001, 1004)
#: Smaller differences of time are none.
SAME = 1.07
#: Sizes at which most tasks end; what fails there is noted, and is no fault.
TINY = (1, 2, 3)

Problem = tuple[int, int]


def tested(facts: Mapping[str, Any]) -> list[Problem]:
    return [(size, seed) for size in facts["sizes"] for seed in range(facts["seeds"])]


def fresh(facts: Mapping[str, Any]) -> list[Problem]:
    sizes = facts["sizes"]
    between = [(one + other) // 2 for one, other in pairwise(sizes)]
    return [(size, seed) for size in sorted({*sizes, *between}) for seed in FRESH_SEEDS]


def largest(facts: Mapping[str, Any]) -> list[Problem]:
    return [(max(facts["sizes"]), seed) for seed in range(2001, 2005)]


def solved(case: build.Case, solver: str, job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a solver does with the problems: `right`, `error`, `once` and `best` seconds of each.

    Where the process ends early, or takes too long, problems are missing.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {**build.project_texts(case), "solver.py": solver}.items():
            file = Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        command = (str(case.python), str(Path(__file__).absolute()), "--job", json.dumps(job))
        answers = Path(folder) / "answers"
        with answers.open("w") as out, suppress(subprocess.TimeoutExpired):
            quiet: dict[str, Any] = {"stdout": out, "stderr": subprocess.DEVNULL}
            subprocess.run(command, cwd=folder, env=environment, timeout=LIMIT_S, check=False, **quiet)
        return [json.loads(line) for line in answers.read_text().splitlines() if line.startswith('{"right"')]


def work(job: Mapping[str, Any]) -> None:
    """Solve the problems in this process, and print a line for each."""
    sys.path.insert(0, str(Path.cwd()))
    logging.disable()
    from checks import TASK, accept  # type: ignore[import-not-found]
    from solver import solve_task  # type: ignore[import-not-found]

    given = [TASK.generate_problem(size, random_seed=seed) for size, seed in job["problems"]]
    # A solution is what is left of it when the next problems are solved.
    first = [_first(problem, solve_task) for problem in given]
    for problem, (answer, solution) in zip(given, first, strict=True):
        if not answer["error"]:
            _judged(answer, problem, solution, accept)
            seconds = [answer["once"]]
            while len(seconds) < job["times"] and sum(seconds) < EACH_S:
                seconds.append(_timed(copy.deepcopy(problem), solve_task)[0])
            answer["best"] = min(seconds)
        print(json.dumps(answer), flush=True)


def _first(problem: Any, solve_task: Any) -> tuple[dict[str, Any], Any]:
    answer: dict[str, Any] = {"right": False, "error": "", "once": 0.0, "best": 0.0}
    solution = None
    given = copy.deepcopy(problem)
    try:
        answer["once"], solution = _timed(given, solve_task)
        answer["changes"] = pickle.dumps(given) != pickle.dumps(copy.deepcopy(problem))
    except Exception as error:  # noqa: BLE001 - a solver may raise anything
        answer["error"] = f"{type(error).__name__}: {error}"[:100]
    return answer, solution


def _judged(answer: dict[str, Any], problem: Any, solution: Any, accept: Any) -> None:
    try:
        answer["right"] = accept({"problem": problem}, None, solution)
    except Exception as error:  # noqa: BLE001 - the check may fail on a solution of another form
        answer["check"] = f"{type(error).__name__}: {error}"[:100]


def _timed(problem: Any, solve_task: Any) -> tuple[float, Any]:
    began = time.process_time()
    solution = solve_task(problem)
    return time.process_time() - began, solution


def measure(case: build.Case) -> dict[str, Any]:
    """Return the case's facts with what is true of each candidate."""
    facts = case.facts
    base = build.project_texts(case)["solver.py"]
    texts = {name: text["solver.py"] for name, text in build.candidate_texts(case).items()}
    found = {each["name"]: _rightness(case, each, base, texts[each["name"]]) for each in facts["candidates"]}
    right = {name: texts[name] for name, each in found.items() if not each.get("class")}
    for name, truth in _speedups(case, base, right).items():
        found[name] |= _of_speed(truth)
    candidates = [*found.values()]
    alone, tests = (_winners(candidates, on) for on in ("alone", "tests"))
    return {
        **facts,
        "expected_winner_true": alone[0] if alone else None,
        "expected_winner_ties_7pct": alone,
        "acceptable_winners": list(dict.fromkeys(alone + tests)),
        "load": round(os.getloadavg()[0], 1),
        "candidates": candidates,
    }


def _rightness(case: build.Case, known: Mapping[str, Any], base: str, text: str) -> dict[str, Any]:
    """Return what is known of a candidate; its class is open where it is right."""
    facts = case.facts
    problems = [*tested(facts), *fresh(facts)]
    answers = _padded(solved(case, text, {"problems": problems, "times": 1}), problems)
    found = {"name": known["name"], "model": known["model"]}
    fails = [at for at, answer in enumerate(answers) if not answer["right"]]
    if fails:
        inside = answers[: len(tested(facts))]
        return {
            **found,
            "class": "subtle-wrong" if all(answer["right"] for answer in inside) else "wrong",
            "what": f"not accepted for {len(fails)} of {len(problems)} problems",
            "errors": sorted({answer.get("check") or answer["error"] for answer in answers} - {""}),
            "expected": {"tests": "fail" if any(answer["error"] for answer in inside) else "pass"},
        }
    small = [(size, 3001) for size in TINY]
    sides = [_padded(solved(case, each, {"problems": small, "times": 1}), small) for each in (base, text)]
    unlike = [size for size, old, new in zip(TINY, *sides, strict=True) if old["right"] and not new["right"]]
    faults = {"not_accepted_for_sizes": unlike} if unlike else {}
    faults |= {"changes_the_problem": True} if any(answer.get("changes") for answer in answers) else {}
    allowed = {**faults, "hint_ok": True, "rejection_ok": True} if faults else {}
    return {**found, "what": f"accepted for all {len(problems)} problems", **allowed}


def _padded(answers: list[dict[str, Any]], problems: list[Problem]) -> list[dict[str, Any]]:
    """Return an answer for each problem: those after which nothing came have ended the process."""
    missing = {"right": False, "error": "the process ended or took too long"}
    return [*answers, *[missing] * (len(problems) - len(answers))]


def _of_speed(truth: Mapping[str, float]) -> dict[str, Any]:
    kind, word = ("slower", "slower") if truth["alone"] <= 1 / SAME else ("neutral", "same")
    if max(truth["alone"], truth["tests"]) >= SAME:
        kind, word = "right", "faster"
    expected = {"tests": "pass", "speed": word, "speedup": truth["alone"]}
    return {"class": kind, "expected": expected, "truth": truth}


def _speedups(case: build.Case, base: str, texts: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """Return how many times as fast each is: on new large problems, also at once, and on the tests'."""
    inside, outside = tested(case.facts), largest(case.facts)
    job = {"problems": [*inside, *outside], "times": MOST}
    sides = {"": base, **texts}
    rounds = [{name: solved(case, text, job) for name, text in sides.items()} for _ in range(ROUNDS)]

    def seconds(name: str, key: str, place: slice) -> float:
        columns = zip(*[[answer[key] for answer in one[name]][place] for one in rounds], strict=True)
        return sum(min(column) for column in columns)

    def ratio(name: str, key: str, place: slice) -> float:
        return round(seconds("", key, place) / max(seconds(name, key, place), 1e-9), 3)

    at = len(inside)
    new = slice(at, None)
    places = {"alone": ("best", new), "once": ("once", new), "tests": ("best", slice(at))}
    return {name: {on: ratio(name, *place) for on, place in places.items()} for name in texts}


def _winners(candidates: list[dict[str, Any]], on: str) -> list[str]:
    right = {each["name"]: each["truth"][on] for each in candidates if each["class"] == "right"}
    best = max(right.values(), default=0.0)
    return sorted((name for name in right if right[name] * SAME >= best), key=lambda name: -right[name])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    build.add_arguments(parser)
    parser.set_defaults(facts=build.HERE / "algotune")
    options = parser.parse_args()
    for case in build.chosen(options):
        build.build(case, options.repositories)
        facts = measure(case)
        text = json.dumps(facts, indent=1) + "\n"
        (options.facts / f"{case.name}.json").write_text(text, encoding="utf-8")
        for each in facts["candidates"]:
            print(case.name, each["name"], each["class"], each.get("truth", each.get("errors")), flush=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "--job":
        work(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
