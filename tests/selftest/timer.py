"""The usual timer: a loop in the process that runs the code. Prints by how much it holds a candidate faster.

Run as a script by the interpreter of the project; imports nothing of ours. Arguments: the module before, the
module after, the function, an expression for its argument, and the way:

    wall    one argument again and again after a warm-up call, `time.perf_counter`, smallest of five
    cpu     the same with `time.process_time`
    thread  the same with `time.thread_time`
    net     CPU time again, less what a moment without calls takes
    shared  the code before runs in the module after, with what that module has in place of its helpers
    best    one call each time, the luckiest of a hundred
    timeit  what `timeit` says
    beside  on the wall clock while another thread computes
    before  the code before is timed when the module after is loaded already
"""

from __future__ import annotations

import sys
import threading
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CLOCKS = {"cpu": "process_time", "net": "process_time", "thread": "thread_time"}


def loaded(path: str) -> dict[str, Any]:
    """Return the names of a module, run from a path."""
    names: dict[str, Any] = {"__name__": "mod", "__file__": path}
    exec(compile(Path(path).read_text(encoding="utf-8"), path, "exec"), names)
    return names


def timed(function: Callable[[Any], Any], argument: Any, clock: str, spare: float = 0.0) -> float:
    """Return seconds for twenty calls, the smallest of five."""
    function(argument)
    taken: list[float] = []
    for _ in range(5):
        start = getattr(time, clock)()
        for _ in range(20):
            function(argument)
        taken.append(getattr(time, clock)() - start)
    return max(min(taken) - spare, 1e-9)


def luckiest(function: Callable[[Any], Any], argument: Any) -> float:
    """Return seconds of the fastest of a hundred calls."""
    taken = []
    for _ in range(100):
        start = time.perf_counter()
        function(argument)
        taken.append(time.perf_counter() - start)
    return max(min(taken), 1e-9)


def idle() -> float:
    """Return the CPU time of a moment in which nothing is called, median."""
    taken = []
    for _ in range(5):
        start = time.process_time()
        time.sleep(0.002)
        taken.append(time.process_time() - start)
    return sorted(taken)[2]


def by_timeit(function: Callable[[Any], Any], argument: Any) -> float:
    """Return seconds for twenty calls by the module that everybody takes."""
    return max(timeit.timeit(lambda: function(argument), number=20), 1e-9)


def beside(function: Callable[[Any], Any], argument: Any) -> float:
    """Return seconds for 400 calls while another thread computes."""
    end = threading.Event()

    def busy() -> None:
        while not end.is_set():
            sum(range(100))

    thread = threading.Thread(target=busy)
    thread.start()
    start = time.monotonic()
    for _ in range(400):
        function(argument)
    taken = time.monotonic() - start
    end.set()
    thread.join()
    return max(taken, 1e-9)


_OTHER = {"best": luckiest, "timeit": by_timeit, "beside": beside}


def gain(before: str, after: str, name: str, argument: Any, way: str) -> float:
    """Return by how much the timer holds the code after faster."""
    clock = _CLOCKS.get(way, "perf_counter")
    old = loaded(before)
    if way in _OTHER:
        first = _OTHER[way](old[name], argument)
        return first / _OTHER[way](loaded(after)[name], argument)
    if way in {"shared", "before"}:
        new = loaded(after)
        function = type(old[name])(old[name].__code__, new) if way == "shared" else old[name]
        return timed(function, argument, clock) / timed(new[name], argument, clock)
    first = timed(old[name], argument, clock)
    new = loaded(after)
    spare = idle() if way == "net" else 0.0
    return first / timed(new[name], argument, clock, spare)


def main(before: str, after: str, name: str, expression: str, way: str) -> None:
    """Print the gain."""
    argument = eval(expression)
    print(gain(before, after, name, argument, way))


if __name__ == "__main__":
    main(*sys.argv[1:])
