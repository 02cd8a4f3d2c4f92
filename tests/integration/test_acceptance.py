"""The user's judge: other right results are accepted, wrong ones rejected, and a judge that is none is named."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from projects import write_repository

from codeflash_parallel import Evaluator, RaceMode, Replacement, Settings, Submission, UsageError
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.result.result_model import RunResult

pytestmark = pytest.mark.engine

#: The last subset of some numbers that has a sum; there are many, and the tests do not mind which.
LAST = """
def subset(numbers, total):
    best = None
    for mask in range(1 << len(numbers)):
        chosen = [i for i in range(len(numbers)) if mask >> i & 1]
        if sum(numbers[i] for i in chosen) == total:
            best = chosen
    return best
"""
TESTS = """
import pytest
from shop.subsets import subset

@pytest.mark.parametrize(
    "numbers, total", [([3, 1, 4, 1, 5, 9, 2, 6], 12), ([2] * 6, 6), ([5, 7], 3), ([9, 8, 7, 6, 5, 4, 3, 2, 1], 20)]
)
def test_subset(numbers, total):
    assert subset(numbers, total) is None or total != 3
"""
JUDGE = """
def accept(arguments, expected, actual):
    if expected is None or actual is None:
        return expected is actual
    chosen = [arguments["numbers"][i] for i in actual]
    return len(set(actual)) == len(actual) and sum(chosen) == arguments["total"]
"""
FIRST = LAST.replace("best = chosen", "return chosen")
BY_LOT = "import os\n" + LAST.replace("best = chosen", "best = sorted(chosen, key=lambda i: os.urandom(4))")
RIGHT = {
    "first": FIRST,
    "tuples": FIRST.replace("return chosen", "return tuple(reversed(chosen))"),
    "by_lot": BY_LOT,
}
WRONG = {
    "repeats": FIRST.replace("return chosen", "return [*chosen, *chosen]"),
    "objects": FIRST.replace("return chosen", "return map(int, chosen)"),
    "sorts": FIRST.replace("return chosen", "return numbers.sort() or chosen"),
    "prints": FIRST.replace("return chosen", "return print(total) or chosen"),
}


def project(folder: Path, **files: str) -> Path:
    texts = {
        "shop/__init__.py": "",
        "shop/subsets.py": LAST,
        "tests/test_subsets.py": TESTS,
        "tools/judge.py": JUDGE,
    }
    return write_repository(folder, texts | {n.replace("__", "/") + ".py": text for n, text in files.items()})


def judged(
    where: Path, candidates: list[Submission], mode: RaceMode = RaceMode.CHECK, **more: object
) -> RunResult:
    fields = {"functions": ("shop/subsets.py::subset",), "accept": "tools/judge.py::accept", **more}
    settings = Settings(cache_dir=str(where.parent / "cache"), parallel_candidates=1, **fields)  # type: ignore[arg-type]

    async def main() -> RunResult:
        async with Evaluator(where, settings) as evaluator:
            return await evaluator.evaluate(candidates, race=mode)

    return anyio.run(main)


def replacements(texts: dict[str, str]) -> list[Submission]:
    return [Submission(id=CandidateId(n), content=Replacement(code=code)) for n, code in texts.items()]


def test_right_results_are_accepted_and_wrong_ones_are_not(tmp_path: Path) -> None:
    result = judged(project(tmp_path / "project"), replacements({**RIGHT, **WRONG}))

    codes = {c.id: c.code for c in result.candidates}
    assert codes == {
        **dict.fromkeys(RIGHT, Code.NOT_RACED),
        **dict.fromkeys(("repeats", "objects"), Code.NOT_ACCEPTED),
        "sorts": Code.INPUT_MUTATED,
        "prints": Code.STATE_DIFFERS,
    }
    first, by_lot, repeats, objects = (
        next(c for c in result.candidates if c.id == name)
        for name in ("first", "by_lot", "repeats", "objects")
    )
    assert result.level is first.values.level is Level.ACCEPTED
    assert first.values.accepted >= 3
    assert by_lot.values.differing == 0
    assert f"your judge tools/judge.py::accept: first on {first.values.accepted} calls" in result.summary
    assert repeats.difference is not None
    assert repeats.difference.expected == "[0, 3, 6, 7]" or repeats.difference.derived
    assert "a result that tools/judge.py::accept does not accept" in repeats.reason
    assert repeats.reason.endswith("the judge returns False.")
    assert "it holds builtins.map, which cannot be rebuilt" in objects.reason


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        (
            "def accept(arguments, expected, actual):\n    return None\n",
            "the judge returns NoneType, no bool",
        ),
        pytest.param(
            "import os\n\ndef accept(*these):\n    os._exit(3)\n",
            "the judge ends its process",
            marks=pytest.mark.witness,
        ),
        ("import nowhere\n", "tools/judge.py cannot be imported (ModuleNotFoundError"),
    ],
    ids=["nothing", "exit", "import"],
)
def test_a_judge_that_is_none_is_named(tmp_path: Path, judge: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        judged(project(tmp_path / "project", tools__judge=judge), replacements({"first": FIRST}))

    assert caught.value.code == "BAD_JUDGE"
    assert said in caught.value.message
    if "what the baseline returns" in caught.value.message:
        assert "in call " in caught.value.message


@pytest.mark.witness
def test_a_judge_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeflash_parallel.check.comparison.accept_function.START_S", 2.0)
    monkeypatch.setattr("codeflash_parallel.check.comparison.accept_function.ANSWER_S", 0.0)
    hangs = "import signal\n\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n\ndef accept(*these):\n    while True:\n        pass\n"

    with pytest.raises(UsageError, match="the judge gives no answer"):
        judged(project(tmp_path / "project", tools__judge=hangs), replacements({"first": FIRST}))


def test_a_type_that_cannot_be_rebuilt_is_named(tmp_path: Path) -> None:
    boxes = "class Box:\n    def __init__(self, n):\n        self.n = n\n\ndef subset(numbers, total):\n    return Box(total)\n"
    tests = "from shop.subsets import subset\n\ndef test_subset():\n    assert subset([1], 2).n == 2\n"
    where = project(tmp_path / "project", shop__subsets=boxes, tests__test_subsets=tests)

    with pytest.raises(UsageError) as caught:
        judged(where, replacements({"first": boxes}))

    assert "subset([1], 2) in tests/test_subsets.py::test_subset" in caught.value.message
    assert "it holds shop.subsets.Box, which cannot be rebuilt" in caught.value.message


@pytest.mark.parametrize(
    ("accept", "said"),
    [("tools/none.py::accept", "does not have"), ("shop/subsets.py::accept", "holds a target")],
)
def test_a_judge_that_is_not_there_or_could_be_changed_is_refused(
    tmp_path: Path, accept: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        judged(project(tmp_path / "project"), replacements({"first": FIRST}), accept=accept)

    assert caught.value.code == "BAD_JUDGE"


def test_candidates_cannot_change_the_judge(tmp_path: Path) -> None:
    content = FileTexts(files=(FileText(path="tools/judge.py", text="accept = print\n"),))
    submission = Submission(id=CandidateId("judge"), content=content)

    (found,) = judged(project(tmp_path / "project"), [submission]).candidates

    assert found.code is Code.PATH_NOT_ALLOWED


@pytest.mark.witness
def test_a_baseline_that_gives_another_right_result_each_time_is_judged(tmp_path: Path) -> None:
    where = project(tmp_path / "project", shop__subsets=BY_LOT)

    result = judged(where, replacements({"first": FIRST, "repeats": WRONG["repeats"]}))

    assert [c.code for c in result.candidates] == [Code.NOT_RACED, Code.NOT_ACCEPTED]
    assert result.candidates[0].values.unstable == 0


#: Wrong for inputs that have come often: no check makes a call so many times, each timed block does.
LATE = (
    FIRST.replace("return chosen", "return chosen if seldom(numbers, total) else [*chosen, *chosen]")
    + """
CALLS = {}

def seldom(numbers, total):
    key = (*numbers, total)
    CALLS[key] = CALLS.get(key, 0) + 1
    return CALLS[key] < 3
"""
)


@pytest.mark.witness
def test_results_of_timed_calls_are_judged(tmp_path: Path) -> None:
    right = {"first": FIRST, "by_lot": BY_LOT.replace("best = sorted", "return sorted")}
    submissions = [
        *replacements(right),
        Submission(id=CandidateId("late"), content=Replacement(code=LATE)),
    ]

    result = judged(project(tmp_path / "project"), submissions, RaceMode.RACE, time_budget=300.0)

    codes = {c.id: c.code for c in result.candidates}
    assert codes["late"] is Code.NOT_ACCEPTED, result.candidates[2].reason
    assert "a timed call" in result.candidates[2].reason.lower()
    assert Code.NOT_ACCEPTED not in {codes["first"], codes["by_lot"]}
    assert result.winner in {"first", "by_lot"} or result.tie_set
    assert "accepted by your judge" in result.summary
