"""A daemon in a process of its own, on a queue of its own, and jobs for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from compiled_runner import put_into
from harness import processes_of, wait_for
from projects import FAST_TOTAL, make_project
from shared_baselines import give, take

from codeflash_parallel import EvalQueueClient, JobKind, Replacement, Settings, Submission, job_request
from codeflash_parallel.queue.jobs import JobRequest
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.result.candidate_model import CandidateId

TARGET = "shop/sums.py::total"
#: Wall seconds after which something hangs.
LONG_S = 90.0

_SERVE = """
import json, sys
from pathlib import Path
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.daemon.daemon import ServeOptions, serve
folder, cache, settings, drain_s, pass_env, on_end = json.loads(sys.argv[1])
serve(ServeOptions(
    folder=Path(folder), cache_dir=Path(cache), settings=QueueSettings(**settings), drain_s=drain_s,
    pass_env=tuple(pass_env), on_end=tuple(on_end),
))
"""


@dataclass(kw_only=True)
class Place:
    """A project, a cache, and a queue with its daemon, if one runs."""

    base: Path
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    #: Of clients, for what they do to the queue while no daemon runs.
    rules: Mapping[str, Any] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def cache(self) -> Path:
        return self.base / "cache"

    @property
    def folder(self) -> Path:
        return self.cache / "queue"

    def start(self, *, drain_s: float = 30.0, **settings: Any) -> subprocess.Popen[bytes]:
        """Start a daemon, and return when it answers."""
        daemon = self.serve(drain_s=drain_s, **settings)
        with self.client() as client:
            assert wait_for(lambda: client.daemon is not None or daemon.poll() is not None, LONG_S)
        assert daemon.poll() is None
        return daemon

    def serve(
        self,
        *,
        drain_s: float = 30.0,
        stderr: int | None = None,
        pass_env: Sequence[str] = (),
        on_end: Sequence[str] = (),
        **settings: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a daemon."""
        told = json.dumps(
            [
                *(str(self.folder), str(self.cache), {"max_concurrent": 1, **settings}),
                *(drain_s, list(pass_env), list(on_end)),
            ]
        )
        daemon = subprocess.Popen([sys.executable, "-c", _SERVE, told], start_new_session=True, stderr=stderr)
        self.daemons.append(daemon)
        return daemon

    def client(self) -> EvalQueueClient:
        return EvalQueueClient(self.folder, QueueSettings(**self.rules))

    def request(self, code: str = FAST_TOTAL, kind: str = JobKind.CHECK, **fields: Any) -> JobRequest:
        settings = Settings(functions=(TARGET,), cache_dir=str(self.cache), **fields.pop("settings", {}))
        candidate = Submission(id=CandidateId("c"), content=Replacement(code=code))
        return job_request(kind, self.project, [candidate], settings, **{"submitter": "me", **fields})

    def results(self) -> dict[str, Any]:
        """Return what lies in the folder of results, by job."""
        files = sorted((self.folder / "results").glob("*.json"))
        return {path.stem: json.loads(path.read_bytes()) for path in files}


@contextmanager
def ending(place: Place) -> Iterator[Place]:
    """End the daemons of a place, however they are."""
    try:
        yield place
    finally:
        for daemon in place.daemons:
            if daemon.poll() is None:
                daemon.send_signal(signal.SIGCONT)
                daemon.terminate()
                try:
                    daemon.wait(LONG_S)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    daemon.wait()


def codes(result: dict[str, Any]) -> dict[str, str]:
    """Return the code of each candidate of a result."""
    return {candidate["id"]: candidate["code"] for candidate in result["document"]["candidates"]}


def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    assert wait_for(condition, LONG_S)


@contextmanager
def project_place(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Give a place with a small project; afterwards its daemons have ended, with all that they started."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    make_project(base / "project")
    put_into(base / "cache")
    give(base / "cache", base / "project")
    with ending(Place(base=base)) as made:
        yield made
    take(base / "cache")
    assert processes_of(made.cache) == []
