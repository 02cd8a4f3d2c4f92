"""Output, environment variables, current directory: what a call leaves, and what the next one finds."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codeflash_parallel._runner.paths import path_relocation
from codeflash_parallel._runner.replay.process_effects import ProcessEffects

NOTHING = {"printed": "", "environ": "", "directory": ""}


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], ProcessEffects]]:
    """Return what begins in a test: before it, standard output is not yet the one that the test sees."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(path_relocation, "_PLACES", [])
    monkeypatch.setattr(path_relocation, "_NEEDLES", [])
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
        path_relocation.settle({"root": str(root), "private": str(tmp_path / "own")})
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
