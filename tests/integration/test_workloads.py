"""What a race times, on real runs: chosen, told, and refused in one line where it cannot be timed."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import pytest
from projects import make_project

from codeflash_parallel import EnvironmentFault, Evaluator, Replacement, Settings, Submission, UsageError
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.events import Event, PhaseStarted
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import RunResult

pytestmark = pytest.mark.engine

SLOW = """def total(values):
    result = 0
    for value in values:
        result = result + value + 0 + 0 - 0 + 0 - 0 + 0
    return result
"""
FAST = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"
TESTS = """
from shop.sums import total


def test_total():
    assert total(list(range(400))) == 79800
"""


#: Whoever must win is done long before; a busy machine takes what it needs.
PLENTY_S = 300.0


def project_at(tmp_path: Path, **files: str) -> Path:
    return make_project(
        tmp_path / "project", **{"shop__sums_py": SLOW, "tests__test_sums_py": TESTS, **files}
    )


def run(
    project: Path, cache: Path, *codes: str | FileTexts, **fields: object
) -> tuple[RunResult, list[PhaseStarted]]:
    """Race candidates and return the result and the phases."""
    settings = Settings(
        functions=("shop/sums.py::total",), cache_dir=str(cache), parallel_candidates=2, seed=7, **fields
    )  # type: ignore[arg-type]
    seen: list[Event] = []
    submissions = [
        Submission(id=CandidateId(f"c{n}"), content=Replacement(code=code) if isinstance(code, str) else code)
        for n, code in enumerate(codes)
    ]

    async def main() -> RunResult:
        async with Evaluator(project, settings) as evaluator:
            return await evaluator.evaluate(submissions, observers=[seen.append])

    result = anyio.run(main)
    return result, [event for event in seen if isinstance(event, PhaseStarted)]


def race_of(phases: list[PhaseStarted]) -> str:
    return next(event.detail for event in phases if event.phase == "race")


def assert_faster_or_open(result: RunResult) -> None:
    """One faster candidate, for which the budget may be too short; nothing may be said against it."""
    (candidate,) = result.candidates
    said = (result.verdict, candidate.status, candidate.code)
    won, open_ = (Verdict.WINNER, CandidateStatus.WON), (Verdict.TOO_NOISY, CandidateStatus.UNDECIDED)
    short = (Verdict.BUDGET_TOO_SMALL, CandidateStatus.UNDECIDED, Code.BUDGET_TOO_SMALL)
    undecided = {(*open_, Code.TOO_NOISY), (*open_, Code.NOT_CONFIRMED), short}
    assert said in {(*won, Code.OK), *undecided}, candidate.reason


@pytest.mark.witness
def test_captured_calls_and_the_budget_are_told_before_the_race(tmp_path: Path) -> None:
    result, phases = run(project_at(tmp_path), tmp_path / "cache", FAST, time_budget=1.0)
    assert race_of(phases) == (
        "workload calls: 1 captured call, because they are the calls that the tests make; budget 1 s"
    )
    assert result.race["workload"] == "calls"


@pytest.mark.campaign
def test_the_automatic_budget_is_no_less_than_thirty_seconds(tmp_path: Path) -> None:
    _, phases = run(project_at(tmp_path), tmp_path / "cache", FAST)
    assert race_of(phases).endswith("budget 45 s")


SPEED = """
import helper
from shop.sums import total


def main():
    return total(helper.VALUES)
"""


@pytest.mark.campaign
def test_a_callable_of_the_users(tmp_path: Path) -> None:
    project = project_at(tmp_path, tools__speed_py=SPEED, tools__helper_py="VALUES = list(range(300))\n")
    result, phases = run(
        project,
        tmp_path / "cache",
        FAST,
        SLOW + "# same\n",
        benchmark="tools/speed.py::main",
        time_budget=PLENTY_S,
    )
    assert race_of(phases).startswith("workload callable: tools/speed.py::main, because --benchmark names it")
    assert result.race["workload"] == "callable"
    assert result.winner == "c0"
    assert result.candidates[0].speedup is not None
    assert result.candidates[0].speedup.low > 1.2


@pytest.mark.campaign
def test_a_command_of_the_users(tmp_path: Path) -> None:
    timed = "from shop.sums import total\nprint(total(list(range(300000))))\n"
    project = project_at(tmp_path, speed_py=timed)
    result, phases = run(
        project, tmp_path / "cache", FAST, benchmark_command="python -m speed", time_budget=PLENTY_S
    )
    assert "workload command: python -m speed" in race_of(phases)
    assert result.race["workload"] == "command"
    assert result.candidates[0].status is CandidateStatus.WON, result.candidates[0].reason


BENCHMARKED = """
from shop.sums import total


def test_total():
    assert total([1, 2, 3]) == 6


def test_speed(benchmark):
    assert benchmark(total, list(range(2000))) == 1999000


def test_speed_of_something_else(benchmark):
    benchmark(sorted, [2, 1])
"""


@pytest.mark.witness
def test_benchmarks_of_the_projects_own(tmp_path: Path) -> None:
    loaded = {"pytest.ini": "[pytest]\naddopts = -p pytest_benchmark.plugin\n"}
    project = project_at(tmp_path, tests__test_sums_py=BENCHMARKED, **loaded)
    result, phases = run(project, tmp_path / "cache", FAST, time_budget=PLENTY_S)
    assert race_of(phases) == (
        "workload pytest-benchmark: 1 test, because the project has benchmarks of the targets; budget 300 s"
    )
    assert result.race["workload"] == "pytest-benchmark"
    assert result.candidates[0].status is CandidateStatus.WON, result.candidates[0].reason
    assert [one.group for one in result.candidates[0].group_speedups] == ["tests/test_sums.py::test_speed"]


WITH_A_FILE = """
from shop import sums


def test_total(tmp_path, monkeypatch):
    with open(tmp_path / "numbers", "w+") as file:
        file.write("1 " * 300)
        file.seek(0)
        assert sums.total(int(n) for n in file.read().split()) == 300
"""


def test_calls_inside_their_tests_where_none_can_be_made_again(tmp_path: Path) -> None:
    slow = SLOW.replace("    for value", "    for _ in range(60000):\n        pass\n    for value")
    project = project_at(tmp_path, tests__test_sums_py=WITH_A_FILE, shop__sums_py=slow)
    result, phases = run(project, tmp_path / "cache", FAST, time_budget=PLENTY_S)
    assert race_of(phases).startswith(
        "workload in-place: calls inside 1 test, because most calls of the targets"
    )
    assert result.candidates[0].status is CandidateStatus.WON, result.candidates[0].reason
    # Its test takes longer than the target.
    assert result.candidates[0].speedup.estimate > 5


#: A generator of which a test reads some, and of which no call can be made again.
GENERATOR = """
def total(numbers):
    result = 0
    for number in numbers:
        for step in range(3000):
            result = result + number - step + step
        yield result
"""
TESTS_OF_A_GENERATOR = """
import inspect

from shop.sums import total


def test_total(tmp_path):
    assert inspect.isgeneratorfunction(total)
    with open(tmp_path / "numbers", "w+") as file:
        sums = total(iter(int(line) for line in file))
        assert list(sums) == []
        sums = total(int(n) for n in "123456789")
        assert [next(sums) for _ in range(8)][0] == 3000
        sums.close()
"""


@pytest.mark.witness
def test_a_generator_is_timed_inside_its_test_step_by_step(tmp_path: Path) -> None:
    project = project_at(tmp_path, tests__test_sums_py=TESTS_OF_A_GENERATOR, shop__sums_py=GENERATOR)
    code = GENERATOR.replace("number - step + step", "number")
    result, phases = run(project, tmp_path / "cache", code, time_budget=PLENTY_S)
    assert race_of(phases).startswith("workload in-place: calls inside 1 test"), result.race
    (candidate,) = result.candidates
    # A busy machine may let the rest of the test scatter too much: then nothing is credited, nor suspected.
    noisy = (CandidateStatus.LOST, Code.TOO_NOISY)
    assert (candidate.status, candidate.code) in {(CandidateStatus.WON, Code.OK), noisy}, candidate.reason
    assert candidate.speedup.estimate > 1.1


SELDOM = (
    WITH_A_FILE
    + """
        assert [sums.total(int(n) for n in "12") for _ in range(3)] == [3, 3, 3]
    for _ in range(4_000_000):
        pass
    assert sums.total([1, 2, 3]) == 6
"""
)


@pytest.mark.witness
def test_calls_that_can_be_made_again_where_the_others_are_little_of_their_tests(tmp_path: Path) -> None:
    slow = SLOW.replace("    for value", "    for _ in range(3000):\n        pass\n    for value")
    project = project_at(tmp_path, tests__test_sums_py=SELDOM, shop__sums_py=slow)
    result, phases = run(project, tmp_path / "cache", FAST, time_budget=PLENTY_S)
    assert race_of(phases).startswith("workload calls: 1 captured call"), result.race
    assert result.candidates[0].status is CandidateStatus.WON, result.candidates[0].reason


#: Hashes of texts are others in each process.
HASHING = """
def total(values):
    result = 0
    for value in values:
        for step in range(300):
            result = result + step - step
        result += hash(str(value))
    return result
"""


@pytest.mark.witness
def test_calls_are_timed_whose_results_differ_from_process_to_process(tmp_path: Path) -> None:
    tests = "from shop.sums import total\n\n\ndef test_total():\n    assert total([5]) == hash('5')\n"
    project = project_at(tmp_path, tests__test_sums_py=tests, shop__sums_py=HASHING)
    fast = "def total(values):\n    return sum(hash(str(value)) for value in values)\n"
    wrong = HASHING.replace("return result", "return str(result)")
    result, phases = run(project, tmp_path / "cache", fast, wrong, time_budget=PLENTY_S)
    assert "; what they give is another in each process: only its type, and what is equal" in race_of(phases)
    best, other = result.candidates
    assert (best.status, best.values.compared, best.values.unstable) == (CandidateStatus.WON, 0, 1)
    assert other.code is Code.TESTS_FAILED


@pytest.mark.witness
def test_whole_tests_where_calls_are_too_short_to_be_timed_inside(tmp_path: Path) -> None:
    # One call that is disturbed does not make fifty long.
    often = '        assert [sums.total(int(n) for n in "12") for _ in range(50)] == [3] * 50\n'
    project = project_at(tmp_path, tests__test_sums_py=WITH_A_FILE.replace("300", "3") + often)
    result, phases = run(project, tmp_path / "cache", FAST, time_budget=5.0)
    assert race_of(phases).startswith("workload tests: 1 test, because no call of the targets can be made")
    assert result.race["workload"] == "tests"
    assert "the figures are those of whole tests, not of the targets (other" in result.race["timed"]


#: Its argument is a generator, which cannot be copied; what `report` gets can be.
WITH_A_CALLER = (
    SLOW
    + """

def report(numbers):
    return sorted(numbers) and total(n % 7 for n in numbers)
"""
)
TESTS_OF_A_CALLER = """
import pytest

from shop.sums import report


@pytest.mark.parametrize("size", [20000, 21000, 30000])
def test_report(size):
    assert report(list(range(size))) == sum(n % 7 for n in range(size))
"""
#: The function that calls the target has other parameters.
OTHER_CALLER = (
    FAST
    + """

def report(numbers, start=0):
    return total(n % 7 for n in numbers)
"""
)


@pytest.mark.witness
def test_calls_of_callers_where_those_of_the_target_cannot_be_made_again(tmp_path: Path) -> None:
    project = project_at(tmp_path, tests__test_sums_py=TESTS_OF_A_CALLER, shop__sums_py=WITH_A_CALLER)
    result, phases = run(project, tmp_path / "cache", FAST, time_budget=PLENTY_S)
    assert re.fullmatch(
        r"workload calls: 3 captured calls of `report`; `total` is \d+ % of it, because most calls of the "
        r"targets cannot be made again outside their tests, or only by dear copies; budget 300 s",
        race_of(phases),
    )
    assert result.candidates[0].status is CandidateStatus.WON, result.candidates[0].reason
    assert result.candidates[0].values.beside == 3


@pytest.mark.witness
def test_no_callers_where_a_candidate_calls_the_target_by_another_function(tmp_path: Path) -> None:
    project = project_at(tmp_path, tests__test_sums_py=TESTS_OF_A_CALLER, shop__sums_py=WITH_A_CALLER)
    code = FileTexts(files=(FileText(path="shop/sums.py", text=OTHER_CALLER),))
    result, phases = run(project, tmp_path / "cache", code, FAST, time_budget=1.0)
    assert race_of(phases).startswith(
        "workload in-place: calls inside 3 tests, because most calls of the targets"
    )
    assert CandidateStatus.REJECTED not in {candidate.status for candidate in result.candidates}


@pytest.mark.campaign
def test_a_candidate_whose_command_says_something_else_is_out(tmp_path: Path) -> None:
    timed = "import shop.sums\nprint(getattr(shop.sums, 'EXTRA', 'none'))\n"
    project = project_at(tmp_path, speed_py=timed)
    code = FAST + "\nEXTRA = 1\n"
    settings = {"benchmark_command": "python -m speed", "time_budget": 10.0}
    result, _ = run(project, tmp_path / "cache", code, **settings)
    assert result.winner is None
    assert "outcomes in a timed unit differ" in result.candidates[0].reason


BENCHMARKS = {
    "raises": ("def main():\n    raise ValueError('no data')\n", "it raises ValueError: no data"),
    "never_returns": ("def main():\n    while True:\n        pass\n", "was not done after 1 s"),
    "sleeps": ("import time\ndef main():\n    time.sleep(3)\n", "was not done after 1 s"),
    "takes_all_memory": ("def main():\n    return len(bytes(1 << 40))\n", "it raises MemoryError"),
    "is_none": ("main = None\n", "tools/is_none.py::main is no callable"),
    "imports_nothing": ("import no_such_thing\n", "No module named 'no_such_thing'"),
    "exits": ("import os\ndef main():\n    os._exit(3)\n", "ended with status 3"),
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with every callable that cannot be timed: runs that are refused leave it as it was."""
    sources = {f"tools__{kind}_py": source for kind, (source, _) in BENCHMARKS.items()}
    return project_at(tmp_path_factory.mktemp("refusing"), **sources)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"benchmark": "tools/none.py::main"}, "names tools/none.py, which the snapshot does not have"),
        ({"benchmark": "shop/sums.py::total"}, "holds a target"),
        ({"benchmark_command": "echo 'open"}, "is not a command line: No closing quotation"),
        ({"benchmark_command": " "}, "names no program"),
        ({"ranking": "no_such_module:name"}, "no_such_module:name cannot be loaded"),
        ({"ranking": "tools/none.py:name"}, "there is no file tools/none.py"),
        ({"ranking": "os:sep"}, "os:sep is no callable"),
        ({"ranking": "builtins:len"}, "must return the ids"),
    ],
)
def test_what_cannot_be_used_is_said_before_anybody_is_judged(
    refusing: Path, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        run(refusing, refusing.with_name("cache"), FAST, **fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", BENCHMARKS)
def test_a_callable_that_cannot_be_timed_on_the_baseline(refusing: Path, kind: str) -> None:
    _, said = BENCHMARKS[kind]
    with pytest.raises(EnvironmentFault) as caught:
        run(refusing, refusing.with_name("cache"), FAST, benchmark=f"tools/{kind}.py::main", time_budget=1.0)
    text = str(caught.value)
    assert text.startswith(f"tools/{kind}.py::main cannot be timed on the baseline: ")
    assert said in text
    assert "\n" not in text


def test_a_command_that_fails_on_the_baseline(refusing: Path) -> None:
    command = "python -c \"import sys; sys.exit('no data')\""
    with pytest.raises(EnvironmentFault, match="it ends with status 1: no data"):
        run(refusing, refusing.with_name("cache"), FAST, benchmark_command=command)


@pytest.mark.campaign
def test_one_call_that_is_longer_than_the_budget(tmp_path: Path) -> None:
    waits = SLOW.replace("    result = 0", "    import time\n    time.sleep(1.5)\n    result = 0")
    project = project_at(tmp_path, shop__sums_py=waits)
    result, _ = run(project, tmp_path / "cache", FAST, time_budget=0.5)
    assert result.verdict is Verdict.BUDGET_TOO_SMALL
    assert "one pass over its work takes longer" in result.candidates[0].reason
    assert result.race["rounds"] == 0


@pytest.mark.witness
def test_a_callable_that_gives_something_else_each_time_is_named(tmp_path: Path) -> None:
    source = "from shop.sums import total\nSEEN = []\ndef main():\n    SEEN.append(total([1] * 200))\n    return len(SEEN)\n"
    project = project_at(tmp_path, tools__speed_py=source)
    result, _ = run(project, tmp_path / "cache", FAST, benchmark="tools/speed.py::main", time_budget=12.0)
    assert any("tools/speed.py::main is non-deterministic" in warning for warning in result.warnings)
    assert result.race["workload"] == "callable"
    assert result.race["rounds"] > 0, result.candidates[0].reason
    assert_faster_or_open(result)


@pytest.mark.campaign
def test_a_callable_that_returns_at_once(tmp_path: Path) -> None:
    project = project_at(tmp_path, tools__speed_py="def main():\n    pass\n")
    result, _ = run(project, tmp_path / "cache", FAST, benchmark="tools/speed.py::main", time_budget=8.0)
    undecided = {Verdict.TOO_NOISY, Verdict.BUDGET_TOO_SMALL}
    assert result.verdict in {Verdict.NOTHING_FASTER, *undecided}, result.summary
    assert result.candidates[0].code in {Code.NOT_FASTER, Code.TOO_NOISY, Code.BUDGET_TOO_SMALL}


LAST_FIRST = """
def last_first(tied):
    return [one.id for one in sorted(tied, key=lambda one: one.id, reverse=True)]
"""


@pytest.mark.campaign
def test_a_ranking_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rankings.py").write_text(LAST_FIRST)
    monkeypatch.chdir(tmp_path)
    codes = [FAST, FAST.replace("value in", "number in").replace("+= value", "+= number")]
    project = project_at(tmp_path)
    result, _ = run(
        project, tmp_path / "cache", *codes, ranking="rankings.py:last_first", time_budget=PLENTY_S
    )
    assert result.verdict is Verdict.TIE, result.summary
    assert result.tie_set == ("c1", "c0")
    assert result.winner == "c1"
