"""What `benchmarks/real_cases/` computes: edits of source text, and the judgement of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks" / "real_cases"
sys.path.append(str(FOLDER))

import algotune  # noqa: E402
from build import load_cases, load_facts  # noqa: E402
from edits import (  # noqa: E402
    EditError,
    add_import,
    function_source,
    insert_before,
    replace_body,
    replace_function,
    substitute,
)
from judge import Found, Judgement, judge  # noqa: E402
from run import made  # noqa: E402
from table import side_by_side, tables  # noqa: E402
from truth import PLUGIN, instrument  # noqa: E402

TEXT = '''"""A module."""
from __future__ import annotations

import os


def single(x):
    return x


class Owner:
    @staticmethod
    @os.fspath
    def method(x):
        return [
            x,
        ]

    after = 1
'''


class TestEdits:
    def test_a_function_is_replaced(self) -> None:
        got = replace_function(TEXT, "single", "\ndef single(x):\n    return -x\n")
        assert got == TEXT.replace("return x\n", "return -x\n")

    def test_a_method_is_replaced_with_its_decorators_and_indented(self) -> None:
        got = replace_function(TEXT, "Owner.method", "def method(x):\n    return 2\n")
        assert "class Owner:\n    def method(x):\n        return 2\n\n    after = 1\n" in got
        assert "staticmethod" not in got

    def test_a_body_is_replaced_under_its_docstring(self) -> None:
        documented = TEXT.replace("x):\n        return [", 'x):\n        """Say it."""\n        return [')
        for text in (TEXT, documented):
            got = replace_body(text, "Owner.method", "if x:\n    return 2\n")
            before, after = text.split("        return [")[0], "\n    after = 1\n"
            assert got == before + "        if x:\n            return 2\n" + after

    def test_the_last_of_several_definitions_counts(self) -> None:
        twice = "def f(): return 1\n\n\ndef f(): return 2\n"
        assert replace_function(twice, "f", "def f(): return 3") == twice.replace("2", "3")

    def test_what_is_read_can_be_written_back(self) -> None:
        source = function_source(TEXT, "Owner.method")
        assert source.startswith("@staticmethod\n")
        assert replace_function(TEXT, "Owner.method", source) == TEXT

    @pytest.mark.parametrize("name", ["missing", "Owner.single", "Missing.method", "method"])
    def test_what_is_not_there_is_said(self, name: str) -> None:
        with pytest.raises(EditError, match=name):
            replace_function(TEXT, name, "def f(): pass")

    def test_a_substitution_counts(self) -> None:
        assert substitute("a b a", "a", "c", 2) == "c b c"
        for count in (1, 3):
            with pytest.raises(EditError, match="found 2"):
                substitute("a b a", "a", "c", count)

    def test_an_import_comes_after_the_docstring_and_the_future(self) -> None:
        lines = add_import(TEXT, "import re").splitlines()
        assert lines[:3] == ['"""A module."""', "from __future__ import annotations", "import re"]
        assert add_import("x = 1\n", "import re") == "import re\nx = 1\n"

    def test_statements_are_inserted_before_a_function(self) -> None:
        assert "X = 1\n\n\ndef single(x):" in insert_before(TEXT, "single", "X = 1")
        assert "    X = 1\n\n    @staticmethod\n" in insert_before(TEXT, "Owner.method", "X = 1")


TIMED = """
class Owner:
    @staticmethod
    def fold(number):
        return number and Owner.fold(number - 1)

    @property
    def steps(self):
        return list(steps(3))

def steps(number):
    yield from range(number)
"""
TESTS = """
import subject

def test_them():
    assert [subject.Owner.fold(5), subject.Owner().steps, *subject.steps(2)] == [0, [0, 1, 2], 0, 1]
"""


def test_outermost_calls_are_timed_in_the_tests(tmp_path: Path) -> None:
    (tmp_path / "subject.py").write_text(TIMED)
    (tmp_path / "test_subject.py").write_text(TESTS)
    for name in ("Owner.fold", "Owner.steps", "steps"):
        instrument(tmp_path / "subject.py", name)
    with pytest.raises(SystemExit, match="no function missing"):
        instrument(tmp_path / "subject.py", "missing")
    told = tmp_path / "told.json"
    command = (sys.executable, "-m", "pytest", "-p", "outermost_calls", "--outermost-calls", told, tmp_path)
    subprocess.run(command, env={**os.environ, "PYTHONPATH": str(PLUGIN)}, capture_output=True, check=True)
    found = json.loads(told.read_text())
    assert found["calls"] == 3  # what `fold` and the property call belongs to their own calls
    assert 0 < found["target_s"] < found["tests_s"]


FACTS: dict[str, Any] = {
    "name": "case",
    "expected_winner_ties_7pct": ["best"],
    "winners_if_those_are_rejected": ["second"],
    "nothing_faster_on": ["tests"],
    "candidates": [
        {"name": "best", "class": "right", "rejection_ok": True, "hint_ok": True},
        {"name": "second", "class": "right"},
        {"name": "same", "class": "neutral"},
        {"name": "slow", "class": "slower"},
        {"name": "bad", "class": "wrong"},
        {"name": "subtle", "class": "subtle-wrong"},
        {"name": "memo", "class": "gamed"},
        {"name": "hidden", "class": "subtle-wrong", "unseeable": True},
    ],
}
STATUSES = {
    "best": "lost",
    "second": "lost",
    "same": "lost",
    "slow": "lost",
    "bad": "rejected",
    "subtle": "rejected",
    "memo": "lost",
    "hidden": "lost",
}


def line(**keywords: Any) -> dict[str, Any]:
    """A run in which `won` won or tied; other keywords are statuses, with codes behind a blank."""
    won = keywords.pop("won", ())
    hints = keywords.pop("hints", ())
    verdict = keywords.pop("verdict", None) or {0: "nothing_faster", 1: "winner"}.get(len(won), "tie")
    top = {name: keywords.pop(name) for name in ("unfinished", "workload", "duplicates") if name in keywords}
    candidates = []
    for name, usual in {**STATUSES, **dict.fromkeys(won, "tied"), **keywords}.items():
        status, _, code = usual.partition(" ")
        outside = {"target": "f"} if name in hints else None
        of = top.get("duplicates", {}).get(name)
        candidates.append(
            {"id": name, "status": status, "code": code or "OK", "outside": outside, "duplicate_of": of}
        )
    document = {
        "complete": True,
        "error": None,
        "verdict": verdict,
        "winner": won[0] if won else None,
        "tie_set": list(won) if len(won) > 1 else [],
        "timings": {"baseline": 2000.0, "race": 3000.0, "total": 5000.0},
        "race": {"workload": top.get("workload", "calls")},
        "candidates": candidates,
    }
    timing = {"wall_s": 6.0, "plain_s": 2.0, "exit_code": 0, "load_before": 0.5}
    return {
        "case": "case",
        "label": "new",
        "unfinished": top.get("unfinished", False),
        "document": document,
        **timing,
    }


def judged(**keywords: Any) -> Judgement:
    return judge(FACTS, line(**keywords))


class TestWinner:
    @pytest.mark.parametrize(
        ("won", "found"),
        [
            (["best"], Found.RIGHT),
            (["best", "hidden"], Found.RIGHT),
            (["second", "best"], Found.AMONG),
            (["second"], Found.OTHER),
            (["best", "same"], Found.OTHER),
            (["slow"], Found.OTHER),
            (["best", "bad"], Found.FALSE),
            (["memo"], Found.FALSE),
            (["subtle"], Found.FALSE),
            ([], Found.NOBODY),
        ],
    )
    def test_who_is_named_against_the_truth(self, won: list[str], found: Found) -> None:
        assert judged(won=won).found is found

    def test_nothing_is_right_where_the_workload_shows_nothing(self) -> None:
        assert judged(workload="tests").found is Found.NOTHING
        assert judged(workload="tests").right
        assert judged(workload="tests", verdict="too_noisy").found is Found.NOBODY

    def test_any_right_one_may_win_where_the_winner_is_unknown(self) -> None:
        facts = {**FACTS, "expected_winner_ties_7pct": None}
        assert judge(facts, line(won=["second"])).found is Found.RIGHT
        assert judge(facts, line(won=["same"])).found is Found.OTHER
        assert judge(facts, line()).found is Found.NOBODY

    def test_nothing_is_right_where_no_candidate_is_faster(self) -> None:
        slow = [each for each in FACTS["candidates"] if each["class"] != "right"]
        facts = {**FACTS, "expected_winner_ties_7pct": None, "candidates": slow}
        assert judge(facts, line()).found is Found.NOTHING

    def test_another_takes_the_place_of_a_winner_that_may_be_rejected(self) -> None:
        assert judged(won=["second"], best="rejected VALUE_DIFFERS").found is Found.RIGHT
        assert judged(won=["second"], hints=["best"]).found is Found.RIGHT
        assert judged(won=["best"], hints=["best"]).found is Found.RIGHT

    def test_a_duplicate_of_the_winner_is_named_with_it(self) -> None:
        got = judged(won=["second"], best="duplicate", duplicates={"best": "second"})
        assert got.named == ("best", "second")
        assert got.found is Found.AMONG

    def test_a_run_that_was_ended_has_no_winner(self) -> None:
        assert judged(won=["best"], unfinished=True).found is Found.UNFINISHED
        ended = {**line(), "document": None, "unfinished": True}
        assert judge(FACTS, ended).verdict == "unfinished"
        assert not judge(FACTS, ended).right


def measured(**alone: float) -> dict[str, Any]:
    """The facts with true speedups: of the target alone as given, and in the tests none but `second`."""
    candidates = [
        {**each, "truth": {"alone": alone[each["name"]], "tests": 1.3 if each["name"] == "second" else 1.0}}
        if each["name"] in alone
        else each
        for each in FACTS["candidates"]
    ]
    return {**FACTS, "candidates": candidates}


class TestMeasuredTruth:
    FACTS = measured(best=2.0, second=1.92, same=2.0)
    SUPPLIED: ClassVar = {**line(won=["second"]), "supplied": True}

    def test_within_five_percent_of_the_best_is_a_true_winner(self) -> None:
        assert judge(self.FACTS, self.SUPPLIED).found is Found.RIGHT
        far = measured(best=2.0, second=1.9)
        assert judge(far, self.SUPPLIED).found is Found.OTHER
        assert judge(far, {**line(won=["same"]), "supplied": True}).found is Found.OTHER

    def test_the_workload_of_the_run_says_who_it_is(self) -> None:
        far = measured(best=2.0, second=1.2)
        assert judge(far, line(won=["second"])).found is Found.RIGHT
        assert judge(far, line(won=["best"])).found is Found.RIGHT

    def test_one_that_was_meant_to_be_slower_may_be_the_fastest(self) -> None:
        fast = measured(best=2.0, slow=2.5)
        assert judge(fast, {**line(won=["slow"]), "supplied": True}).found is Found.RIGHT
        assert judge(fast, {**line(won=["best"]), "supplied": True}).found is Found.OTHER
        assert judge(fast, line(won=["slow"])).found is Found.OTHER

    def test_so_is_a_right_one_whose_interval_meets_the_winners(self) -> None:
        far, close = measured(best=2.0, second=1.5), json.loads(json.dumps(self.SUPPLIED))
        for each in close["document"]["candidates"]:
            each["speedup"] = {"low": 1.4, "high": 1.6}
        assert judge(far, close).found is Found.RIGHT
        close["document"]["candidates"][0]["speedup"] = {"low": 1.7, "high": 1.8}
        assert judge(far, close).found is Found.OTHER

    def test_nothing_is_right_where_the_best_is_hardly_faster(self) -> None:
        for best, found in ((1.04, Found.NOTHING), (1.06, Found.NOBODY)):
            none = {**line(), "supplied": True}
            assert judge(measured(best=best, second=1.0), none).found is found

    def test_another_takes_the_place_of_one_that_may_be_rejected(self) -> None:
        won = {**line(won=["second"], best="rejected VALUE_DIFFERS"), "supplied": True}
        assert judge(measured(best=2.0, second=1.2), won).found is Found.RIGHT


class TestCandidates:
    def test_a_wrong_one_that_wins_or_ties_is_accepted(self) -> None:
        assert judged(won=["best", "subtle", "memo", "hidden"]).accepted == ("subtle", "memo")

    def test_a_wrong_one_is_called_equivalent_unless_a_hint_points_at_it(self) -> None:
        got = judged(won=["best"], bad="lost", subtle="undecided TOO_NOISY", hints=["bad"])
        assert got.called_equivalent == ("subtle",)
        assert got.hinted == ("bad",)
        assert got.undecided == {"subtle": "TOO_NOISY"}
        assert got.right

    def test_an_honest_one_that_is_rejected_makes_the_case_wrong(self) -> None:
        got = judged(won=["best"], slow="rejected CPU_LIMIT", same="unappliable DOES_NOT_APPLY")
        assert got.rejected == {"same": "DOES_NOT_APPLY", "slow": "CPU_LIMIT"}
        assert not got.right

    def test_too_slow_and_what_the_notes_allow_are_no_wrong_rejections(self) -> None:
        got = judged(won=["second"], slow="rejected TOO_SLOW", best="rejected VALUE_DIFFERS")
        assert not got.rejected
        assert got.right

    def test_hints_at_honest_ones_are_listed_unless_the_notes_allow_them(self) -> None:
        assert judged(won=["best"], hints=["best", "second"]).wrongly_hinted == ("second",)

    def test_what_was_not_judged_is_listed(self) -> None:
        assert judged(won=["best"], slow="infra X", same="cancelled Y").unjudged == {"same": "Y", "slow": "X"}

    def test_seconds(self) -> None:
        got = judged(won=["best"])
        assert (got.seconds, got.aim_s, got.times_plain) == (6.0, 50.0, 3.0)
        assert got.phases_s == {"baseline": 2.0, "race": 3.0}


class TestTable:
    def test_what_is_asked_of_all_runs(self) -> None:
        good = line(won=["best"], slow="rejected CPU_LIMIT")
        bad = {**line(won=["memo"]), "wall_s": 60.0}
        supplied = {**line(verdict="too_noisy"), "supplied": True}
        text = tables([good, bad, supplied], {"case": FACTS})
        assert "| true winner, or in its tie | >= 90 % | 1 of 2, 50.0% |" in text
        assert "| wrong or gamed accepted | 0 | 1 | case memo |" in text
        assert "| right rejected | <= 1 % | 1 of 8, 12.5% | case slow CPU_LIMIT |" in text
        assert "| median of s / (15 s + 6 x plain) | <= 1 | 1.22 |" in text
        assert "| runs over 30 s + 10 x plain | 0 | 1 | case 60 s |" in text
        assert "| runs without a verdict | <= 5 % | 1 of 1, 100.0% | case too_noisy |" in text
        assert "## new, supplied" in text

    def test_a_table_a_label_and_one_side_by_side(self) -> None:
        facts = {"case": FACTS}
        lines = [{**line(won=["memo"]), "label": "old"}, line(won=["best"], slow="rejected CPU_LIMIT")]
        text = tables(lines, facts)
        assert text.count("\n| case | ") == 4
        assert "memo: false" in text
        assert "slow CPU_LIMIT" in text
        assert "| case | old | new |" in side_by_side(lines, facts)
        assert not side_by_side(lines[:1], facts)


_TASK = '''
from AlgoTuneTasks.base import register_task, Task

@register_task("double")
class Double(Task):
    """Double a number."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.factor = 2

    def generate_problem(self, n, random_seed=1):
        return n + random_seed

    def _times(self, number):
        return self.factor * number

    def solve(self, problem):
        return self._times(problem)

    def is_solution(self, problem, solution):
        return solution in (2 * problem, -2 * problem)
'''
_SOLVER = "class Solver:\n    def solve(self, problem, **kwargs):\n        return -problem - problem"


class TestAlgoTune:
    FACTS: ClassVar = {
        "task": "double",
        "sizes": [1, 5],
        "seeds": 2,
        "candidates": [{"name": "a", "model": "A"}],
    }
    TEXTS: ClassVar = {"AlgoTuneTasks/double/double.py": _TASK, "results/A/double/solver.py": _SOLVER}

    @pytest.mark.slow
    @pytest.mark.parametrize(("answer", "failed"), [("-problem - problem", 0), ("None", 4)])
    def test_the_tests_of_a_made_project_pass_with_reference_and_solver(
        self, tmp_path: Path, answer: str, failed: int
    ) -> None:
        reads = {**self.TEXTS, "results/A/double/solver.py": _SOLVER.replace("-problem - problem", answer)}
        texts = algotune.project(self.FACTS, reads.__getitem__)
        solver = algotune.solvers(self.FACTS, reads.__getitem__)["a"]
        assert _pytest(tmp_path / "base", texts) == 0
        assert _pytest(tmp_path / "solver", {**texts, **solver}) == failed

    def test_the_reference_has_no_more_than_it_needs(self) -> None:
        text = algotune.reference(_TASK)
        assert "generate_problem" not in text
        assert "is_solution" not in text
        names: dict[str, Any] = {}
        exec(text, names)
        assert names["solve_task"](21) == 42

    @pytest.mark.parametrize(
        ("text", "is_light"),
        [
            ("import os, numpy.linalg as la\nfrom scipy import sparse", True),
            ("try:\n    import numba\nexcept ImportError:\n    pass", False),
            ("from . import other", False),
            ("def broken(:", False),
        ],
    )
    def test_solvers_that_need_more_are_told(self, text: str, is_light: bool) -> None:
        assert algotune.is_light(text) == is_light


def _pytest(folder: Path, texts: dict[str, str]) -> int:
    """Return how many tests of a project fail."""
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_solver.py")
    done = subprocess.run(command, cwd=folder, text=True, capture_output=True, check=False)
    assert done.returncode in {0, 1}, done.stdout
    return done.stdout.count("FAILED")


@pytest.mark.parametrize("name", ["facts", "unseen.json", "algotune"])
def test_the_facts_name_candidates_that_exist(name: str) -> None:
    for facts in load_facts(FOLDER / name):
        names = {each["name"] for each in facts["candidates"]}
        lists = ("expected_winner_ties_7pct", "acceptable_winners", "winners_if_those_are_rejected")
        assert names.issuperset(name for key in lists for name in facts.get(key) or ())
        assert facts["functions"]
        made = "task" in facts
        assert made or facts["perf_files"]
        assert made or (FOLDER / "candidates" / f"{facts['name']}.py").exists()
        if name == "facts":
            assert "def main(" in (FOLDER / "workloads" / f"{facts['name']}.py").read_text()


def test_runs_that_an_output_has_are_counted(tmp_path: Path) -> None:
    output = tmp_path / "runs.jsonl"
    assert not made(output)
    lines = [{"case": "a", "label": "new", "options": []}] * 2
    supplied = {**lines[0], "supplied": True, "options": ["-q"]}
    output.write_text("".join(json.dumps(each) + "\n" for each in [*lines, supplied]), encoding="utf-8")
    assert made(output) == {("a", "new", False, ()): 2, ("a", "new", True, ("-q",)): 1}


def test_the_cases_of_another_file_of_facts(tmp_path: Path) -> None:
    file = tmp_path / "facts.json"
    file.write_text(json.dumps([{"name": "mine"}, {"name": "yours"}]), encoding="utf-8")
    assert [case.name for case in load_cases([], tmp_path, file)] == ["mine", "yours"]
    assert [case.name for case in load_cases(["yours"], tmp_path, file)] == ["yours"]
    with pytest.raises(SystemExit, match="no such case: mine"):
        load_cases(["mine"], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["build.py", "run.py", "table.py", "truth.py"])
def test_every_program_takes_a_file_of_facts(program: str) -> None:
    command = (sys.executable, FOLDER / program, "--help")
    done = subprocess.run(command, text=True, capture_output=True, check=True)
    assert "--facts PATH" in done.stdout
