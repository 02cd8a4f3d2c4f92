"""Processes that use a queue, for tests that stop and kill them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from queue_lab import open_lab
from codeflash_parallel.queue.jobs import now
with open_lab(Path(sys.argv[1]), now) as lab:
{body}
"""


@contextmanager
def child(folder: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    script = CHILD.format(
        paths=[str(HERE), str(HERE.parent)], body=textwrap.indent(textwrap.dedent(body), "    ")
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
