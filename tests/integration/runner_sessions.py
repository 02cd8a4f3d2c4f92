"""Run the runner's test sessions by hand: a folder, a spec, a pipe; no evaluator and no launcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiled_runner import shared_runner

from codeflash_parallel.sandbox.runner_command import parse_records

#: Interpreters that the runner must run in; the environment names others than the current one.
PYTHONS = [sys.executable, *filter(None, os.environ.get("CODEFLASH_TEST_PYTHONS", "").split(os.pathsep))]


@dataclass(frozen=True)
class SessionRun:
    records: list[dict[str, Any]]
    output: str
    status: int

    def named(self, name: str) -> list[dict[str, Any]]:
        return [record for record in spelled_out(self.records) if record["t"] == name]

    def one(self, name: str) -> dict[str, Any]:
        (record,) = self.named(name)
        return record

    @property
    def outcomes(self) -> dict[str, str]:
        """Outcome of each test by the last part of its id: that of the call, or of the phase that failed."""
        found: dict[str, str] = {}
        for phase in self.named("phase"):
            name = phase["id"].partition("::")[2] or phase["id"]
            if phase["when"] in ("call", "collect") or phase["outcome"] != "passed":
                outcome = "x" * phase["xfail"] + phase["outcome"]
                # A failed subtest is a failed call before the call itself, which may then pass.
                if found.get(name) != "failed":
                    found[name] = outcome if phase["when"] == "call" else f"{phase['when']} {outcome}"
        return found

    @property
    def executed(self) -> dict[tuple[str, int], int]:
        return {(r["id"].partition("::")[2], r["target"]): r["calls"] for r in self.named("executed")}


def spelled_out(records: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records with those of tests that simply passed as three phases."""
    for record in records:
        if record["t"] != "passed":
            yield record
            continue
        for when, ns in zip(("setup", "call", "teardown"), record["ns"], strict=True):
            phase = {"id": record["id"], "when": when, "outcome": "passed", "xfail": False, "ns": ns}
            yield {"t": "phase", **phase}


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def run_session(
    base: Path,
    root: Path,
    *,
    python: str = sys.executable,
    runner: Path | None = None,
    user_root: Path | None = None,
    project: Path | None = None,
    environment: Mapping[str, str] | None = None,
    targets: tuple[str, ...] = (),
    **fields: Any,
) -> SessionRun:
    """Run a runner to its end (the shared one unless another is named); targets: ``path.py::qualname``."""
    private = base / "private"
    private.mkdir(exist_ok=True)
    runner = runner or shared_runner()
    spec = {
        "protocol": 1,
        "mode": "tests",
        "root": str(root),
        "project": str(project or root),
        "user_root": str(user_root or base / "elsewhere"),
        "private": str(private),
        "runner": str(runner),
        "targets": [dict(zip(("path", "qualname"), target.split("::"), strict=True)) for target in targets],
        "prove": sorted({target.split("::")[0] for target in targets}),
        "args": [],
        "select": None,
        "wrap": "none",
        "budget": {"calls": 2000, "bytes": 1 << 26, "seconds": 30.0},
        "inputs": str(private / "inputs"),
        "stop": "never",
        "tracebacks": "short",
        "workers": 0,
        **fields,
    }
    path = private / "spec.json"
    path.write_text(json.dumps(spec), encoding="utf-8")
    return _run(
        [python, str(runner / "_codeflash_runner" / "__main__.py"), str(path)], private, spec, environment
    )


def _run(
    command: list[str], private: Path, spec: dict[str, Any], environment: Mapping[str, str] | None
) -> SessionRun:
    reading, writing = os.pipe()
    base = {"PATH": os.environ["PATH"], "HOME": str(private), "TMPDIR": str(private)}
    # The plugins of this environment take longer to load than most runs here last.
    base["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    process = subprocess.Popen(
        [*command, str(writing)],
        cwd=spec["project"],
        env={**base, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **(environment or {})},
        pass_fds=[writing],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    os.close(writing)
    chunks: list[bytes] = []
    with os.fdopen(reading, "rb") as records:
        reader = threading.Thread(target=lambda: chunks.append(records.read()))
        reader.start()
        output, _ = process.communicate(timeout=120)
        reader.join()
    return SessionRun(records=list(parse_records(b"".join(chunks))), output=output, status=process.returncode)


def calls_of(run: SessionRun, target: int) -> list[dict[str, Any]]:
    return [record for record in run.named("call") if record["target"] == target]


def budget(calls: int = 2000, size: int = 1 << 26, seconds: float = 30.0) -> dict[str, float]:
    return {"calls": calls, "bytes": size, "seconds": seconds}
