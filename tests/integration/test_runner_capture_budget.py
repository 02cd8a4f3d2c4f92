"""Of very many calls the runner records a sample, as far as its budget goes."""

from __future__ import annotations

from pathlib import Path

from runner_sessions import budget, run_session, write_files

from codeflash_parallel._runner.values import call_files

BUDGET_SUITE = """
import mod
def test_few(): assert [mod.f(n) for n in range(10)] == list(range(10))
def test_many():
    for n in range({many}): mod.f(n)
"""


def test_counts_are_exact_when_calls_are_sampled(tmp_path: Path) -> None:
    files = {"mod.py": "def f(x): return x\n", "test_it.py": BUDGET_SUITE.replace("{many}", "50_000")}
    root = write_files(tmp_path / "root", files)
    runs = [
        run_session(tmp_path, root, targets=("mod.py::f",), wrap="capture", budget=budget(100), seed=seed)
        for seed in (1, 1, 2)
    ]
    for run in runs:
        assert run.executed == {("test_few", 0): 10, ("test_many", 0): 50_000}
    samples = [[call["text"] for call in run.named("call")] for run in runs]
    assert samples[0] == samples[1] != samples[2]
    assert len(samples[0]) == 100
    numbers = [int(text) for text in samples[0]]
    assert numbers == sorted(numbers)
    # A uniform sample of 100: about a quarter lies in each quarter (5 sigma: 21).
    assert 4 < sum(number < 12_500 for number in numbers) < 47


def test_no_calls_are_recorded_when_none_are_wanted(tmp_path: Path) -> None:
    files = {"mod.py": "def f(x): return x\n", "test_it.py": BUDGET_SUITE.replace("{many}", "100")}
    root = write_files(tmp_path / "root", files)
    run = run_session(tmp_path, root, targets=("mod.py::f",), wrap="digest", budget=budget(0))
    assert run.executed == {("test_few", 0): 10, ("test_many", 0): 100}
    assert not run.named("call")


def test_spent_bytes_leave_digests_and_spent_seconds_leave_counts(tmp_path: Path) -> None:
    suite = "import mod\ndef test_many():\n    for n in range(300): mod.f(b'x' * 1000)\n"
    root = write_files(tmp_path / "root", {"mod.py": "def f(x): return len(x)\n", "test_it.py": suite})
    run = run_session(tmp_path, root, targets=("mod.py::f",), wrap="capture", budget=budget(size=20_500))
    captured = [call["captured"] for call in run.named("call")]
    assert len(captured) == 300
    assert 15 <= sum(captured) <= 20
    assert {c["why"] for c in run.named("call") if not c["captured"]} == {"the budget of bytes is spent"}
    assert len(call_files.read_calls(tmp_path / "private" / "inputs")) == sum(captured)
    run = run_session(tmp_path, root, targets=("mod.py::f",), wrap="capture", budget=budget(seconds=0.0))
    assert run.executed == {("test_many", 0): 300}
    assert len(run.named("call")) <= 1


def test_a_test_that_is_costly_to_record_leaves_time_for_the_others(tmp_path: Path) -> None:
    suite = """
import mod
def test_costly():
    value = [[n] for n in range(1_000)]
    for n in range(1_500): mod.f(value)
def test_after(): assert mod.f(1) == 1
"""
    root = write_files(tmp_path / "root", {"mod.py": "def f(x): return x\n", "test_it.py": suite})
    run = run_session(tmp_path, root, targets=("mod.py::f",), wrap="capture", budget=budget(seconds=0.5))
    assert run.executed == {("test_costly", 0): 1_500, ("test_after", 0): 1}
    tests = [call["test"].partition("::")[2] for call in run.named("call")]
    assert 0 < tests.count("test_costly") < 1_500
    assert tests.count("test_after") == 1


def test_recording_costs_no_more_than_a_share_of_what_the_tests_take(tmp_path: Path) -> None:
    suite = """
import mod, time
def test_dear_to_record():
    value = [[n] for n in range(1_000)]
    for n in range(1_500): mod.f(value)
def test_long(): time.sleep(0.5)
def test_after():
    for n in range(100): mod.f(n)
"""
    root = write_files(tmp_path / "root", {"mod.py": "def f(x): return x\n", "test_it.py": suite})
    kept = {}
    for share in (0.0, 2.0):
        limits = {**budget(seconds=0.0), "share": share}
        run = run_session(tmp_path, root, targets=("mod.py::f",), wrap="capture", budget=limits)
        assert run.executed == {("test_dear_to_record", 0): 1_500, ("test_after", 0): 100}
        kept[share] = [call["test"].partition("::")[2] for call in run.named("call")]
    assert kept[0.0].count("test_after") == 0
    assert kept[2.0].count("test_after") == 100
    assert kept[2.0].count("test_dear_to_record") < 1_500


def test_of_many_calls_those_that_are_passed_by_cost_one_frame_more(tmp_path: Path) -> None:
    suite = """
import sys, mod
def events(calls):
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        for n in range(calls): mod.f(n)
    finally:
        sys.setprofile(None)
    return seen
def test_cost():
    for n in range(50_000): mod.f(n)
    seen = events(1_000)
    # A wrapper and what it wraps; now and then, less often the more calls there were, one is sampled.
    assert 2_000 <= seen.count("call") <= 2_400, seen.count("call")
    # Its thread is asked for, its ticket drawn, and it is put into the set of the busy and out of it.
    assert seen.count("c_call") <= 4_400, seen.count("c_call")
"""
    root = write_files(tmp_path / "root", {"mod.py": "def f(x): return x\n", "test_it.py": suite})
    run = run_session(tmp_path, root, targets=("mod.py::f",), wrap="capture", budget=budget(50))
    assert run.outcomes == {"test_cost": "passed"}, run.output
    assert run.executed == {("test_cost", 0): 51_000}


def test_a_reservoir_is_uniform() -> None:
    from codeflash_parallel._runner.capture.call_recorder import NEVER, Reservoir

    hits = [0] * 50
    for seed in range(2_000):
        reservoir = Reservoir(5, seed)
        for number in range(50):
            if number >= reservoir.due[0]:
                assert reservoir.admit(number, number)
        assert len(reservoir.kept) == 5
        for number in reservoir.kept:
            hits[number] += 1
    # 200 expected each, standard deviation 13.4.
    assert 130 < min(hits) <= max(hits) < 270
    assert Reservoir(0, 1).due == [NEVER]
    full = Reservoir(1, 1)
    full.close()
    assert not full.admit(0, 0)
