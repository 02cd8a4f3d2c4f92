"""A small project on which runners are run by hand: no evaluator, only specs, inputs files and records."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner_sessions import shared_runner

from codeflash_parallel.sandbox.runner_command import parse_records

#: Interpreters that the runner must run in; the environment names others than the current one.
PYTHONS = [sys.executable, *filter(None, os.environ.get("CODEFLASH_TEST_PYTHONS", "").split(os.pathsep))]

WRITE_INPUTS = """
import sys, json, pickle
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from _codeflash_runner.values import call_files
orders = json.load(sys.stdin)
with open(sys.argv[3], "wb") as file:
    for number, order in enumerate(orders):
        names = {}
        exec(order["setup"], names)
        arguments = eval("(lambda *args, **kwargs: (args, kwargs))(%s)" % order["arguments"], names)
        blob = order["blob"].encode() if "blob" in order else pickle.dumps(arguments, 4)
        call_files.write_call(file, dict(order["meta"], i=number), blob)
    call_files.write_modules(file, sys.argv[2])
"""


@dataclass
class Lab:
    """A project folder, an interpreter, an installed runner, and the calls that were "captured"."""

    base: Path
    python: str = sys.executable
    targets: list[dict[str, str]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.project = self.base / "project"
        self.private = self.base / "private"
        for folder in (self.project, self.private):
            folder.mkdir(exist_ok=True)
        self.runner = shared_runner()

    def file(self, name: str, text: str) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def target(self, qualname: str, path: str = "mod.py") -> int:
        self.targets.append({"path": path, "qualname": qualname})
        return len(self.targets) - 1

    def call(
        self, target: int, arguments: str, *, setup: str = "", blob: str | None = None, **meta: Any
    ) -> int:
        module = self.targets[target]["path"].removesuffix(".py").replace("/", ".")
        full = {
            "target": target,
            "test": "test_a",
            "via": "outer",
            "shape": "function",
            "module": module,
            **meta,
        }
        order = {"arguments": arguments, "setup": setup, "meta": full}
        self.calls.append(order if blob is None else {**order, "blob": blob})
        return len(self.calls) - 1

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.private),
            "TMPDIR": str(self.private),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }

    def spec(self, mode: str, **more: Any) -> dict[str, Any]:
        inputs = self.private / "inputs"
        if self.calls:
            command = [self.python, "-c", WRITE_INPUTS, str(self.runner), str(self.project), str(inputs)]
            given = json.dumps(self.calls)
            subprocess.run(command, input=given, env=self.environment, text=True, check=True, timeout=60)
        return {
            "protocol": 1,
            "mode": mode,
            "root": str(self.project),
            "project": str(self.project),
            "user_root": str(self.base / "elsewhere"),
            "private": str(self.private),
            "runner": str(self.runner),
            "targets": self.targets,
            "prove": [target["path"] for target in self.targets],
            "inputs": str(inputs),
            **more,
        }

    def command(self, spec: dict[str, Any], *descriptors: int) -> list[str]:
        path = self.private / "spec.json"
        path.write_text(json.dumps(spec), encoding="utf-8")
        main = self.runner / "_codeflash_runner" / "__main__.py"
        return [self.python, str(main), str(path), *map(str, descriptors)]

    def run(self, mode: str, **more: Any) -> list[dict[str, Any]]:
        """Run a runner to its end and return its records."""
        with (self.private / "records").open("w+b") as records:
            command = self.command(self.spec(mode, **more), records.fileno())
            done = subprocess.run(
                command,
                cwd=self.project,
                env=self.environment,
                pass_fds=[records.fileno()],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            records.seek(0)
            found = list(parse_records(records.read()))
        assert found, done.stderr
        assert found[-1] == {"t": "end", "status": 0}, (found[-2:], done.stderr)
        return found

    @contextmanager
    def arm(self, groups: Sequence[dict[str, Any]], work: str = "calls", **more: Any) -> Iterator[ArmProcess]:
        """Start an arm's template and wait until it is ready."""
        mine, its = socket.socketpair()
        spec = self.spec("arm", work=work, groups=list(groups), **more)
        with mine, (self.private / "records").open("w+b") as records:
            with its:
                process = subprocess.Popen(
                    self.command(spec, records.fileno(), its.fileno()),
                    cwd=self.project,
                    env=self.environment,
                    pass_fds=[records.fileno(), its.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
            arm = ArmProcess(process, mine)
            try:
                yield arm
            finally:
                arm.close()
                process.kill()
                process.wait(timeout=20)


class ArmProcess:
    """The evaluator's end of an arm."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self._control = control
        self._control.settimeout(60)
        self._file = control.makefile("rb")

    def say(self, **order: Any) -> None:
        self._control.sendall(json.dumps(order).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        line = self._file.readline()
        return dict(json.loads(line)) if line else {"t": "closed"}

    def ask(self, **order: Any) -> dict[str, Any]:
        self.say(**order)
        return self.hear()

    def close(self) -> None:
        self._file.close()
        self._control.close()

    def block(self, group: int, calls: int, **more: Any) -> dict[str, Any]:
        """Run one block and return its check."""
        assert self.ask(op="block", group=group, calls=calls, **more) == {"t": "armed"}
        assert self.ask(op="go")["t"] == "done"
        return self.ask(op="check")


def named(records: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return the records of one kind."""
    return [record for record in records if record["t"] == name]
