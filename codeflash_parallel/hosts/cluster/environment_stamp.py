"""The stamp of an environment: verdicts of hosts are exchanged only where theirs are equal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codeflash_parallel.result.errors import EnvironmentFault

#: Packages that one sentence names.
_NAMED = 5
_PROBE_S = 60.0

#: Prints a stamp; runs in every Python from 3.9 on.
_PROBE = """
import importlib.metadata as m, json, platform, sys
found = {}
for one in m.distributions():
    name = (one.metadata["Name"] or "").lower().replace("_", "-")
    found.setdefault(name, one.version or "")
libc = " ".join(platform.libc_ver()).strip()
print(json.dumps({
    "python": platform.python_implementation() + " " + platform.python_version(),
    "platform": " ".join((platform.system(), platform.machine(), libc)).strip(),
    "packages": found,
}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentStamp:
    """Everything of an environment that may change a verdict.

    Attributes:
        python: implementation and version.
        platform: system, processor's kind and C library.
        packages: versions by name.
    """

    python: str
    platform: str
    packages: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.python}, {len(self.packages)} packages, {self.platform}"


def stamp_of(interpreter: Path) -> EnvironmentStamp:
    """Return the stamp of an interpreter's environment. Blocking.

    Raises:
        EnvironmentFault: `BAD_PYTHON`: the interpreter does not answer.
    """
    try:
        done = subprocess.run(
            [str(interpreter), "-c", _PROBE], cwd="/", capture_output=True, check=True, timeout=_PROBE_S
        )
        return EnvironmentStamp(**json.loads(done.stdout))
    except subprocess.CalledProcessError as error:
        why = f"status {error.returncode}"
    except subprocess.TimeoutExpired:
        why = f"no answer within {_PROBE_S:.0f} s"
    except (OSError, ValueError, TypeError) as error:
        why = str(error)
    raise EnvironmentFault("BAD_PYTHON", f"{interpreter} is no Python interpreter that answers: {why}.")


def differences(wanted: EnvironmentStamp, found: EnvironmentStamp) -> list[str]:
    """Return how a host's environment differs from that of the submitting process, in clauses."""
    clauses = []
    if found.python != wanted.python:
        clauses.append(f"it has {found.python}, not {wanted.python}")
    if found.platform != wanted.platform:
        clauses.append(f"it is {found.platform}, not {wanted.platform}")
    packages = list(_packages(wanted.packages, found.packages))
    if packages:
        more = f" and {len(packages) - _NAMED} more" if len(packages) > _NAMED else ""
        clauses.append(", ".join(packages[:_NAMED]) + more)
    return clauses


def _packages(wanted: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*wanted, *found}):
        mine, theirs = wanted.get(name), found.get(name)
        if mine == theirs:
            continue
        if theirs is None:
            yield f"{name} {mine} is missing"
        elif mine is None:
            yield f"{name} {theirs} is there, and not here"
        else:
            yield f"{name} is {theirs}, not {mine}"
