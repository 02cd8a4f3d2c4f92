"""Our own gate, as a user runs it: the command line in a process of its own, judged by its document."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selftest.entries import SECRET_VARIABLE, Base

#: Wall seconds after which a run of ours is no longer waited for.
LONGEST_S = 900.0

#: Bytes of the files that a run keeps of which so many are looked through, each.
_MOST_READ = 4 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """How the gate is asked.

    Attributes:
        interpreter: of the projects.
        cache: folder for mirrors, slots and results.
        slots: candidates judged at once.
        options: further ones of the command line.
    """

    interpreter: Path
    cache: Path
    slots: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a run said.

    Attributes:
        document: the run's; empty when it gave none.
        kept: all that it has said, and the text of the files that it keeps.
        screen: what a terminal is sent by `show`.
        killed: it was ended by a signal.
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    kept: str = ""
    screen: str = ""
    killed: bool = False

    @property
    def error(self) -> str:
        """Return the run's error as ``"CODE: message"``; empty when it had none."""
        error = self.document.get("error")
        if error:
            return f"{error['code']}: {error['message']}"
        return "" if self.document else "NO_DOCUMENT: the evaluator said nothing"

    @property
    def level(self) -> str:
        """Return the isolation level."""
        return str(self.document.get("isolation", "none"))

    def candidate(self, name: str) -> Mapping[str, Any] | None:
        """Return what is said of a candidate."""
        found: Iterable[Mapping[str, Any]] = self.document.get("candidates", ())
        return next((one for one in found if one["id"] == name), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What the gate is asked.

    Attributes:
        command: `check` or `run`.
        repository: of the base.
        lines: of the manifest, one a candidate.
        secret: stands in the evaluator's environment.
    """

    command: str
    repository: Path
    base: Base
    lines: Sequence[Mapping[str, Any]]
    secret: str = ""


def ask(question: Question, way: Way) -> Said:
    """Let candidates of one project be judged."""
    base, repository, secret = question.base, question.repository, question.secret
    manifest = way.cache / f"{repository.name}.jsonl"
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text("".join(json.dumps(line) + "\n" for line in question.lines), encoding="utf-8")
    arguments = [question.command, "--candidates", str(manifest), "--output-format", "json", "--quiet"]
    arguments += ["--python", str(way.interpreter), "--parallel-candidates", str(way.slots)]
    for target in base.targets:
        arguments += ["--function", f"{base.module}::{target}"]
    status, output = _run([*arguments, *base.options, *way.options], repository, way, secret)
    with suppress(ValueError):
        document = json.loads(output)
        screen = _screen(document, repository, way)
        return Said(document=document, kept=output + _kept(document), screen=screen, killed=status < 0)
    return Said(kept=output, killed=status < 0)


def _run(arguments: Sequence[str], repository: Path, way: Way, token: str) -> tuple[int, str]:
    name, *rest = arguments
    command = [sys.executable, "-P", "-m", "codeflash_parallel", name, "--cache-dir", str(way.cache), *rest]
    with subprocess.Popen(
        command, cwd=repository, env=_environment(token), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            output = process.communicate(timeout=LONGEST_S)[0]
        except BaseException:
            process.send_signal(signal.SIGTERM)  # it ends its own
            raise
    return process.returncode, output.decode("utf-8", "replace")


def _environment(token: str) -> dict[str, str]:
    """Return ours without what would change the run, with a secret that must not go any further."""
    own = {
        n: v for n, v in os.environ.items() if not n.startswith(("CODEFLASH_PARALLEL_", "PYTEST_", "GIT_"))
    }
    return {**own, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", SECRET_VARIABLE: token}


def _kept(document: Mapping[str, Any]) -> str:
    """Return the text of every file that the run keeps, but for the candidates' own."""
    folder = Path(str(document.get("run_dir", "")))
    found = []
    if document.get("run_dir") and folder.is_dir():
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in {".diff", ".patch"}:
                with path.open("rb") as file:
                    found.append(file.read(_MOST_READ).decode("utf-8", "replace"))
    return "".join(found)


def _screen(document: Mapping[str, Any], repository: Path, way: Way) -> str:
    """Return what a terminal would be sent of the run."""
    name = str(document.get("run_id", ""))
    return _run(["show", name, "--verbose"], repository, way, "")[1] if name else ""
