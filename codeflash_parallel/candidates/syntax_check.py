"""Whether a text is Python: by our own parser, and by the project's interpreter, which may be newer."""

from __future__ import annotations

import subprocess
from pathlib import Path

from codeflash_parallel.candidates.analysis.python_source import decoded, parse_anew, pieces

#: Compiling one file takes milliseconds; an interpreter that needs longer says nothing about the text.
_COMPILE_DEADLINE_S = 20.0
_COMPILE = "import sys; compile(sys.stdin.buffer.read(), sys.argv[1], 'exec', dont_inherit=True)"


def syntax_fault(source: bytes, known: bytes = b"") -> str:
    """Return what our own parser says against a text, empty when nothing.

    Runs on the event loop's thread: the filter of warnings belongs to the whole process.

    Args:
        source: a file, in whatever encoding it names.
        known: what it was made from; only what differs is parsed.
    """
    text = decoded(source)
    try:
        if text is None:
            parse_anew(source)
        else:
            pieces(text, decoded(known) or "")
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        return f"{error.msg}{where}"
    return ""


def compiles(interpreter: Path, source: bytes) -> bool:
    """Ask the project's Python, which may be newer than ours; nothing is executed."""
    try:
        done = subprocess.run(
            (interpreter, "-I", "-S", "-c", _COMPILE, "candidate.py"),
            input=source,
            capture_output=True,
            timeout=_COMPILE_DEADLINE_S,
            check=False,
            env={"PYTHONWARNINGS": "ignore"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
