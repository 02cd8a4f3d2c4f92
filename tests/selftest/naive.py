"""Naive judges: what an attack has to fool before it counts.

`exit code` believes pytest's exit status. `JUnit` counts the passed tests of its report. `output` reads the
last line. `no harm seen` looks at neither, and the attack got what it wanted of the host. `hangs` waits for
ever. `timer` is a loop with a clock in the process of the candidate.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from selftest import timer, traces
from selftest.entries import SECRET_VARIABLE, Base, Entry, Kind, Trace
from selftest.judging import Fooled
from selftest.projects import (
    Marks,
    add_worktree,
    edits_of,
    texts_of,
    write_files,
    write_repository,
)

#: Wall seconds after which one says that it hangs; the tests take a fraction of one.
HANGS_S = 12.0

#: A timer must show so much at least, or nobody would be fooled; a busy machine gets several tries.
FOOLED, TRIES = 1.3, 3

#: The last line of a green run.
_GREEN = re.compile(r"(=+ )?\d+ passed[^\n]*", re.ASCII)

#: Starts the tests as a shell would, so that there is a parent to kill.
_PARENT = (
    "import subprocess, sys; done = subprocess.run(sys.argv[2:]);"
    "open(sys.argv[1], 'w').write(str(done.returncode))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """What a plain run of pytest shows.

    Attributes:
        status: exit status; `None`: there is none, whoever waited for it is dead.
        passed: tests that passed by the JUnit report, -1: there is no report.
        hung: it did not come to an end.
    """

    status: int | None
    passed: int
    last_line: str
    output: str
    hung: bool = False


def run_tests(folder: Path, interpreter: Path, token: str) -> Ran:
    """Run pytest in a folder, as somebody does who suspects nothing."""
    report, status = folder.parent / f"{folder.name}.xml", folder.parent / f"{folder.name}.status"
    tests = [str(interpreter), "-m", "pytest", "-q", f"--junitxml={report}"]
    command = [sys.executable, "-c", _PARENT, str(status), *tests]
    with subprocess.Popen(
        command, cwd=folder, env=_environment(folder, token), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    ) as process:  # fmt: skip
        output, hung = _read(process)
    lines = output.rstrip().splitlines()
    with suppress(OSError, ValueError):
        return Ran(
            status=int(status.read_text()), passed=_passed(report), hung=hung, output=output,
            last_line=lines[-1] if lines else "",
        )  # fmt: skip
    return Ran(status=None, passed=-1, last_line="", output=output, hung=hung)


def _read(process: subprocess.Popen[bytes]) -> tuple[str, bool]:
    try:
        output, hung = process.communicate(timeout=HANGS_S)[0], False
    except subprocess.TimeoutExpired:
        hung = process.poll() is None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a daemon may hold the pipe
            process.communicate(timeout=1)
        output = b""
    return output.decode("utf-8", "replace"), hung


def _environment(folder: Path, token: str) -> Mapping[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder.parent),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(folder),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        SECRET_VARIABLE: token,
    }


def _passed(report: Path) -> int:
    try:
        suites = list(ET.parse(report).getroot().iter("testsuite"))
    except (OSError, ET.ParseError):
        return -1
    bad = ("failures", "errors", "skipped")
    return sum(int(s.get("tests", 0)) - sum(int(s.get(name, 0)) for name in bad) for s in suites)


def fooled(entry: Entry, base: Base, baseline: Ran, mark: Marks, place: Place) -> Fooled:
    """Show an attack to the naive judges.

    Args:
        baseline: what the project without it shows.
        mark: what it would leave behind.
        place: where it is tried.
    """
    if entry.kind is Kind.CLOCK:
        return _timed(entry, base, mark, place)
    folder, checkout = place.folder / "tree", place.folder / "checkout"
    if entry.trace is Trace.GIT:
        write_repository(checkout, base)
        add_worktree(checkout, folder)
    else:
        write_files(checkout, texts_of(base, checkout))
        write_files(folder, texts_of(base, checkout))
    write_files(folder, edits_of(entry, base, mark))
    ran = run_tests(folder, place.interpreter, mark.token)
    seen = traces.Seen(shown=ran.output, killed=ran.status is None and not ran.hung, shared=(checkout,))
    reached = traces.reached(entry.trace, mark, seen)
    traces.remove(mark)
    return Fooled(by=_judges(entry, ran, baseline, reached=reached))


def _judges(entry: Entry, ran: Ran, baseline: Ran, *, reached: bool) -> tuple[str, ...]:
    if entry.trace is not Trace.NONE:
        return ("no harm seen",) if reached else ()
    says = {
        "exit code": ran.status == 0,
        "JUnit": 0 < baseline.passed == ran.passed,
        "output": bool(_GREEN.fullmatch(ran.last_line)) and "failed" not in ran.last_line,
        "hangs": ran.hung,
    }
    return tuple(name for name, says_so in says.items() if says_so)


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where something is tried.

    Attributes:
        folder: a new one.
        interpreter: of the project.
    """

    folder: Path
    interpreter: Path


def _timed(entry: Entry, base: Base, mark: Marks, place: Place) -> Fooled:
    before, after = place.folder / "before.py", place.folder / "after.py"
    write_files(place.folder, {before.name: base.files[base.module]})
    write_files(place.folder, {after.name: edits_of(entry, base, mark)[base.module]})
    gain, one = 0.0, partial(_gain, entry, before, after, place)
    for _ in range(TRIES):
        gain = max(gain, one())
        if gain > FOOLED:
            break
    traces.remove(mark)
    return Fooled(by=("timer",) if gain > FOOLED else (), gain=gain)


def _gain(entry: Entry, before: Path, after: Path, place: Place) -> float:
    how = (entry.timing.function, entry.timing.argument, entry.timing.way)
    command = [str(place.interpreter), str(timer.__file__), str(before), str(after), *how]
    environment = {**_environment(place.folder / "tree", ""), "TMPDIR": str(place.folder)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            return float(process.communicate(timeout=60)[0].split()[-1])
        except (ValueError, IndexError, subprocess.TimeoutExpired):
            return 0.0
        finally:
            with suppress(ProcessLookupError):  # some leave a process behind
                os.killpg(process.pid, signal.SIGKILL)
