"""Evaluate candidates from a noxfile, with the interpreter that a session has prepared."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import nox

#: Meaning of our exit codes in a session's log.
_MEANINGS = {
    1: "no candidate is correct and measurably faster",
    2: "the command line is wrong",
    3: "codeflash-parallel itself failed",
    4: "the machine or the project's baseline is unfit",
    130: "interrupted",
    143: "terminated",
}


def evaluate_session(
    session: nox.Session, *arguments: str, command: str = "run", success_codes: Sequence[int] = (0,)
) -> int:
    """Run an evaluation in which the session's interpreter runs the project's tests.

    The project and pytest must be installed in the session; codeflash-parallel itself is not, it runs in
    nox's own interpreter. What the user gives after ``--`` is appended, so that it wins::

        @nox.session
        def race(session):
            session.install("-e", ".", "pytest")
            evaluate_session(session, "--function", "src/pkg/mod.py::f", "--candidates", "candidates")

    Args:
        session: the running session; its environment variables are passed on.
        *arguments: command-line arguments of codeflash-parallel.
        command: its sub-command, `run` or `check`.
        success_codes: exit codes that do not fail the session.

    Returns:
        The exit code.

    Raises:
        nox's own session error: the exit code is none of `success_codes`.
    """
    argv = [sys.executable, "-m", "codeflash_parallel", command, *_python_of(session), *arguments]
    argv += session.posargs
    session.log(" ".join(["codeflash-parallel", *argv[3:]]))
    environment = {**os.environ, **{k: v for k, v in session.env.items() if v is not None}}
    status = subprocess.run(argv, env=environment, check=False).returncode
    if status not in success_codes:
        meaning = _MEANINGS.get(status, "it was killed" if status < 0 else "unknown")
        session.error(f"codeflash-parallel {command} ended with exit code {status}: {meaning}.")
    return status


def _python_of(session: nox.Session) -> list[str]:
    """Return the flag that names the session's interpreter; nothing for a session without an environment."""
    folders = session.bin_paths or []
    return ["--python", str(Path(folders[0], "python"))] if folders else []
