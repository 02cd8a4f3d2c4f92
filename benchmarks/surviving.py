"""Which mutants of a module do its tests not notice? One pytest that forks for each mutant.

    python surviving.py job.json [pytest's arguments ...]

Runs in the interpreter of the project. The job names the module's file, the folder of what is imported, how
many seconds there are, and mutants by id: the name of a function and the text of the whole module. In a fork
the mutant's code takes the place of the function's, so that nothing is imported or collected again. What is
found is added to the job's file: functions that the tests call, and ids of mutants that survive.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

#: Times the CPU of the unchanged tests, seconds besides, and memory that a mutant may take.
TIMES, SECONDS, BYTES = 4, 1, 2 << 30


class Killing:
    """Runs all tests once for the unchanged module, and once for each mutant."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.found: dict[str, list[str]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        functions = {f.__code__.co_qualname: f for f in self._functions()}
        reader, writer = os.pipe()
        status = _forked(lambda: _watched(session, self.job["file"], writer), 600)
        os.close(writer)
        with os.fdopen(reader) as called:
            self.found["called"] = sorted({*called.read().split("\n")} & {*functions})
        if status:
            raise SystemExit(f"the unchanged tests end with {status}")
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        limit = round(TIMES * (usage.ru_utime + usage.ru_stime)) + SECONDS
        end = time.monotonic() + self.job["seconds"]
        self.found["survivors"] = [
            name
            for name, (function, text) in self.job["mutants"].items()
            if function in self.found["called"]
            and time.monotonic() < end
            and not _forked(partial(self._mutated, session, functions[function], text), limit)
        ]
        return True

    def _functions(self) -> Iterator[FunctionType]:
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and found.__code__.co_filename == self.job["file"]:
                yield found

    def _mutated(self, session: pytest.Session, function: FunctionType, text: str) -> None:
        codes = [compile(text, self.job["file"], "exec", dont_inherit=True)]
        while codes[0].co_qualname != function.__code__.co_qualname:
            code = codes.pop(0)
            codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        function.__code__ = codes[0]
        _run(session)


def _run(session: pytest.Session) -> None:
    for item, following in zip(session.items, [*session.items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            os._exit(1)


def _watched(session: pytest.Session, file: str, writer: int) -> None:
    called = set()

    def profile(frame: Any, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            called.add(frame.f_code.co_qualname)

    sys.setprofile(profile)
    _run(session)
    sys.setprofile(None)
    os.write(writer, "\n".join(called).encode())


def _forked(work: Callable[[], None], limit_s: int) -> int:
    """Do it in a fork; return how that ended."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 1))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10 * limit_s)
        work()
        os._exit(0)
    finally:
        os._exit(1)


def main() -> int:
    path = Path(sys.argv[1])
    job = json.loads(path.read_text(encoding="utf-8"))
    sys.path.insert(0, job["imports"])
    killing = Killing(job)
    status = pytest.main(sys.argv[2:], plugins=[killing])
    path.write_text(json.dumps(killing.found), encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
