"""The usual timer: a loop in the process that runs the code. Prints by how much it holds a candidate faster.

Arguments: the module before, the module after, the function, an expression for its argument, and the way:

    wall    one argument again and again after a warm-up call, `time.perf_counter`, smallest of five
    cpu     the same with `time.process_time`
    thread  the same with `time.thread_time`
    net     CPU time again, less what a moment without calls takes
    shared  the code before runs in the module after, with what that module has in place of its helpers
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

CLOCKS = {"cpu": "process_time", "net": "process_time", "thread": "thread_time"}


def loaded(path):
    names = {"__name__": "mod", "__file__": path}
    exec(compile(Path(path).read_text(), path, "exec"), names)
    return names


def timed(function, argument, clock, spare=0.0):
    function(argument)
    taken = []
    for _ in range(5):
        start = getattr(time, clock)()
        for _ in range(20):
            function(argument)
        taken.append(getattr(time, clock)() - start)
    return max(min(taken) - spare, 1e-9)


def idle():
    """Return the CPU time of a moment in which nothing is called, median."""
    taken = []
    for _ in range(5):
        start = time.process_time()
        time.sleep(0.002)
        taken.append(time.process_time() - start)
    return sorted(taken)[2]


def main(before, after, name, expression, way):
    clock = CLOCKS.get(way, "perf_counter")
    old = loaded(before)
    argument = eval(expression)
    reference = None if way == "shared" else timed(old[name], argument, clock)
    new = loaded(after)
    spare = idle() if way == "net" else 0.0
    if way == "shared":
        code = old[name].__code__
        reference = timed(type(old[name])(code, new), argument, clock)
    print(reference / timed(new[name], argument, clock, spare))


if __name__ == "__main__":
    main(*sys.argv[1:])
