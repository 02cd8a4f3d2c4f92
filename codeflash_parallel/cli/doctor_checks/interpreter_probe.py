"""What `doctor` asks the project's interpreter; both scripts run in every Python from 3.9 on."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from pathlib import Path

#: A healthy interpreter answers in a fraction of a second.
PROBE_S = 30.0

_VERSIONS = """
import importlib.metadata as m, json, platform
def v(n):
    try: return m.version(n)
    except m.PackageNotFoundError: return ""
names = ("pytest", "pytest-xdist", "line_profiler")
print(json.dumps(dict({n: v(n) for n in names}, python=platform.python_version())))
"""

#: Loads pytest's plugins and forks as a template does: the middle process ends, and its child becomes a child
#: of the nearest ancestor that asked for orphans (36: PR_SET_CHILD_SUBREAPER).
_FORKS = """
import ctypes, importlib.metadata as m, os, sys, threading
found = m.entry_points()
points = found.select(group="pytest11") if hasattr(found, "select") else found.get("pytest11", ())
for point in points:
    try: point.load()
    except Exception: pass
if len(os.listdir("/proc/self/task")) > 1:
    names = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    sys.exit("a plugin of pytest starts a thread: " + (", ".join(names) or "not one of Python's"))
if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):
    sys.exit("the kernel does not give orphans to their ancestor")
blocked, go = os.pipe()
middle = os.fork()
if not middle:
    if not os.fork():
        os.close(go)
        os.read(blocked, 1)
        os._exit(7)
    os._exit(0)
os.waitpid(middle, 0)
os.close(go)
if os.wait()[1] >> 8 != 7:
    sys.exit("the end of a forked process cannot be seen")
"""


def versions(interpreter: Path) -> dict[str, str]:
    """Return the versions of an interpreter and of what we use there, empty: missing; no entry: it fails."""
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        found: dict[str, str] = json.loads(_run(interpreter, _VERSIONS).stdout)
        return found
    return {}


def why_not_warm(interpreter: Path) -> str:
    """Return why an interpreter cannot be the template of warm servers, one clause; empty: it can.

    A project may still be unfit, by what its own files do when they are imported; only a run can tell that.
    """
    try:
        done = _run(interpreter, _FORKS)
    except OSError as error:
        return f"it does not run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"loading pytest's plugins and forking takes more than {PROBE_S:.0f} s"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else lines[-1] if lines else f"it ends with status {done.returncode}"


def _run(interpreter: Path, script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(interpreter), "-c", script], cwd="/", capture_output=True, check=False, timeout=PROBE_S
    )
