"""Output, environment variables, current directory: what a call leaves, and what the next one finds. What is looked at after all calls: results must last, and values tell what they hold as they always did. What is told of lists that a function may leave in whatever state it is done with."""

from __future__ import annotations

import copyreg
import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest
from digests import encode

from codeflash_parallel._runner import slot_paths
from codeflash_parallel._runner.replay.call_effects import ProcessEffects, ResultStability, ScratchArguments
from codeflash_parallel._runner.values import object_reduction
from codeflash_parallel._runner.values.value_digests import digest_raise, digest_return
from codeflash_parallel.check.comparison.call_comparison import other_trace
from codeflash_parallel.check.session.runner_report import read_report

NOTHING = {"printed": "", "environ": "", "directory": ""}


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ProcessEffects]]:
    """Return what begins in a test: before it, standard output is not yet the one that the test sees."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slot_paths, "_PLACES", [])
    monkeypatch.setattr(slot_paths, "_NEEDLES", [])
    kept = dict(os.environ)

    def begun() -> ProcessEffects:
        monkeypatch.setattr(sys, "stdout", sys.stdout)
        return ProcessEffects(str(Path.cwd()))

    yield begun
    kept["PYTEST_CURRENT_TEST"] = os.environ["PYTEST_CURRENT_TEST"]
    assert dict(os.environ) == kept


def left(surroundings: ProcessEffects) -> dict[str, str]:
    """Return what was left, and begin anew."""
    found = surroundings.traces()
    surroundings.reset()
    return found


def test_what_is_printed_counts_however_it_is_written(begin):
    surroundings = begin()
    assert left(surroundings) == NOTHING
    print("a", "b")
    one = left(surroundings)
    assert one["printed"]
    assert left(surroundings) == NOTHING
    sys.stdout.buffer.write(b"a b\n")
    assert left(surroundings) == one
    print("a", "c")
    assert left(surroundings)["printed"] not in {"", one["printed"]}


def test_much_is_told_apart_up_to_its_end(begin):
    surroundings = begin()

    def printed(end: str) -> str:
        for _ in range(100):
            print("x" * 5000)
        print(end)
        return left(surroundings)["printed"]

    assert printed("a") == printed("a") != printed("b")


def test_output_is_still_a_file_with_a_number(begin):
    begin()
    assert sys.stdout.fileno() == 1
    assert not sys.stdout.isatty()
    assert sys.stdout.writable()


def test_closed_output_is_told_and_harms_nobody(begin):
    surroundings = begin()
    sys.stdout.close()
    assert left(surroundings)["printed"] == "closed"
    assert left(surroundings)["printed"] == "closed"


def test_variables_are_compared_and_given_back(begin):
    surroundings = begin()
    os.environ["CODEFLASH_TEST_ONE"] = "1"
    one = left(surroundings)
    assert "CODEFLASH_TEST_ONE" not in os.environ
    assert one["environ"] != ""
    os.environ["CODEFLASH_TEST_ONE"] = "2"
    assert left(surroundings)["environ"] != one["environ"]
    os.environ["CODEFLASH_TEST_ONE"] = "1"
    del os.environ["CODEFLASH_TEST_ONE"]
    assert left(surroundings) == NOTHING
    name = next(iter(os.environ))
    value = os.environ.pop(name)
    assert left(surroundings)["environ"]
    assert os.environ[name] == value


def test_the_directory_is_compared_and_given_back(begin, tmp_path):
    surroundings = begin()
    (tmp_path / "below").mkdir()
    os.chdir(tmp_path / "below")
    assert left(surroundings)["directory"]
    assert Path.cwd() == tmp_path
    os.chdir(tmp_path / "below")
    (tmp_path / "below").rmdir()
    assert left(surroundings)["directory"] == "gone"


def test_paths_of_the_slot_are_the_same_everywhere(begin, tmp_path):
    surroundings = begin()

    def told(root: Path) -> dict[str, str]:
        (root / "a").mkdir(parents=True, exist_ok=True)
        slot_paths.settle({"root": str(root), "private": str(tmp_path / "own")})
        print(root / "x")
        os.environ["CODEFLASH_TEST_ONE"] = str(root)
        os.chdir(root / "a")
        return left(surroundings)

    assert told(tmp_path / "one") == told(tmp_path / "two")


def test_it_does_not_count_how_much_is_printed_at_once(begin):
    surroundings, lines = begin(), [f"line {number}\n" for number in range(30_000)]
    for line in lines:
        print(line, end="")
    one = left(surroundings)["printed"]
    print("".join(lines), end="")
    assert left(surroundings)["printed"] == one
    print("".join(lines))
    assert left(surroundings)["printed"] != one


def test_what_other_threads_print_is_not_looked_at(begin):
    surroundings = begin()
    thread = threading.Thread(target=print, args=("late",))
    thread.start()
    thread.join()
    assert left(surroundings) == NOTHING
    print("x" * 10)
    assert left(surroundings)["printed"]


def kept(value: Any, *args: Any, ns: int = 1) -> ResultStability:
    lasting = ResultStability()
    lasting.keep(7, value, args, {}, digest_return(value, args, {}), ns)
    return lasting


def test_what_stays_as_it_was_is_not_spoiled():
    assert kept({"a": [1, 2.0]}, [3]).spoiled() == []
    assert kept(iter([1])).spoiled() == [7]  # it is read up: nothing can be said of it, on no side


def test_a_result_or_an_argument_that_changes_is_spoiled():
    result, argument = [[1]], [2]
    lasting = kept(result, argument)
    result[0].append(5)
    assert lasting.spoiled() == [7]
    result[0].pop()
    assert lasting.spoiled() == []
    argument.clear()
    assert lasting.spoiled() == [7]


def test_what_cannot_be_read_any_more_is_spoiled():
    view = memoryview(bytearray(3))
    lasting = kept(view)
    assert lasting.spoiled() == []
    view.release()
    assert lasting.spoiled() == [7]


def test_calls_that_there_was_no_time_for_are_told_and_not_compared():
    lasting = kept([1], ns=10**9)
    lasting.keep(8, [2], (), {}, digest_return([2], (), {}), 1)
    assert (lasting.unseen, lasting.spoiled()) == ([8], [])
    told = {"t": "spoiled", "calls": [7], "unseen": lasting.unseen, "manners": []}
    answers = [{"t": "answer", "of": [call, "return", "int", *"aaaa", "random=1", 5]} for call in (7, 8, 9)]
    spoiled, unseen, lasted = (answer.traces for answer in read_report([*answers, told]).answers)
    assert [other_trace(lasted, got) for got in (spoiled, unseen, lasted)] == ["lasting", "", ""]
    assert [other_trace(unseen, got) for got in (spoiled, unseen, lasted)] == ["", "", ""]
    assert other_trace("shared=1;lasting=unseen", spoiled) == "shared"


def test_the_arguments_of_a_call_that_raised_are_looked_at():
    argument, lasting, error = [1], ResultStability(), ValueError()
    lasting.keep(7, error, (argument,), {}, digest_raise(error, (argument,), {}), 1)
    assert lasting.spoiled() == []
    argument.append(2)
    assert lasting.spoiled() == [7]


def test_only_so_much_is_kept_until_other_calls_follow():
    lasting = kept([1], ns=10**9)
    late, fields = [2], digest_return([2], (), {})
    lasting.keep(8, late, (), {}, fields, 1)
    late.clear()
    assert lasting.spoiled() == []
    lasting.more()
    lasting.keep(9, late, (), {}, fields, 1)
    assert lasting.spoiled() == [9]


def test_threads_that_go_on_are_told_and_idle_pools_are_not():
    lasting, begun, go_on = ResultStability(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait()

    with ThreadPoolExecutor(1) as executor, ThreadPool(1) as pool:
        executor.submit(int).result()
        pool.apply(int)
        assert lasting.left() == []
        waiting = pool.apply_async(work)
        begun.wait()
        assert lasting.left() == ["threads: left running"]
        go_on.set()
        waiting.wait()
        assert lasting.left() == []
        begun.clear()
        go_on.clear()
        executor.submit(work)
        begun.wait()
        assert lasting.left() == ["threads: left running"]
        go_on.set()


def test_a_thread_that_soon_ends_is_waited_for():
    lasting, ready = ResultStability(), threading.Event()
    thread = threading.Thread(target=ready.wait, args=(0.05,))
    thread.start()
    assert lasting.left() == []
    thread.join()


def test_a_timer_of_signals_is_told():
    signal.setitimer(signal.ITIMER_PROF, 1000)
    try:
        assert ResultStability().left() == ["signals: a timer is left running"]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


class Plain:
    def __init__(self) -> None:
        self.x = 1


class Reducing(Plain):
    def __reduce_ex__(self, protocol: object) -> Any:
        return copyreg.__newobj__, (Reducing,), {"x": 1}  # type: ignore[attr-defined]


class Stateful(Plain):
    def __getstate__(self) -> dict[str, int]:
        return {"x": 1}


class Reading(Plain):
    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Shadowing:
    def __init__(self) -> None:
        self.__dict__["x"] = 1

    @property
    def x(self) -> int:
        return 2

    @property
    def y(self) -> int:
        return 3


class Registered(Plain):
    pass


class Rows(list[int]):
    def __iter__(self) -> Any:
        return list.__iter__(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int = 1


NAME = f"{__name__}."


def noted(value: Any) -> list[str]:
    """Return what encoding a value adds, without the digests."""
    before = set(object_reduction.noted())
    object_reduction._SEEN.clear()
    encode(value)
    mine = {note for note in object_reduction.noted() if note.startswith(f"{NAME}{type(value).__name__}:")}
    return sorted(" ".join(note.split()[1:2]) for note in mine | (set(object_reduction.noted()) - before))


@pytest.mark.parametrize(
    ("value", "ways"),
    [
        (Plain(), []),
        (Reducing(), ["__reduce_ex__"]),
        (Stateful(), ["__getstate__"]),
        (Reading(), ["__getattribute__"]),
        (Shadowing(), ["x"]),
        (Rows([1]), ["__iter__"]),
        (Frozen(), []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_ways_of_telling_are_noted(value, ways):
    assert noted(value) == ways


def test_a_registered_way_is_noted(monkeypatch):
    monkeypatch.setitem(copyreg.dispatch_table, Registered, lambda _: (Registered, ()))
    assert noted(Registered()) == ["copyreg"]


def test_the_same_method_has_the_same_fingerprint_wherever_its_file_lies():
    def made(text: str, file: str) -> Any:
        names: dict[str, Any] = {"__name__": __name__}
        exec(compile(text, file, "exec"), names)
        return names["f"]

    one = made("def f(self):\n    return (lambda: {1, 2})", "/one/a.py")
    other = made("\n\ndef f(self):\n    return (lambda: {1, 2})", "/other/a.py")
    different = made("def f(self):\n    return (lambda: {1, 3})", "/one/a.py")
    assert object_reduction._fingerprint(one) == object_reduction._fingerprint(other)
    assert object_reduction._fingerprint(one) != object_reduction._fingerprint(different)


class Held:
    def __init__(self, parts: int) -> None:
        self.parts = [[part] for part in range(parts)]


def told(values: list[tuple[Held, int]]) -> dict[str, str]:
    return ScratchArguments((values,), {}).told(0, (values,), {})


def test_objects_in_a_list_are_told_by_what_they_hold() -> None:
    told_of = told([(Held(3), 1), (Held(5), 2)])
    assert told_of["0"].startswith("=")
    assert told_of[""] != told([(Held(4), 1), (Held(5), 2)])[""]


def test_nothing_is_told_where_all_items_hold_one_large_object() -> None:
    """It would be walked once for each of them: minutes for a tree of token types in every token."""
    shared = Held(500)
    assert told([(shared, number) for number in range(200)]) == {}
    assert told([(Held(500), 1), (shared, 2)])
