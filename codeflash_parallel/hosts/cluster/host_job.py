"""Jobs for hosts, what they send back, and the protocol of an engine that places them.

A job is one JSON text. A host answers with messages, JSON objects with a key `t`:

- `bundle`: it does not have the snapshot yet, and wants it.
- `began`: it has taken the job; `host`, `environment`.
- `checking`: of the candidate `candidate`.
- `step`: of the step cache; `kind`, `content` (the candidate's key) and `text`.
- `judged`: nothing more will come for the candidate `candidate`; `status`, `code`, `reason`.
- `waits`: for others on that host; `why`, empty: no longer.
- `warning`: for people; `message`.
- `progress`: of a race; `event`.
- `ended`: the last one of a job that was done; `race`, and `overhead_s`, `checks_s` of checks.
- `fault`: the last one of a job that this host cannot do; `code`, `message`, `hint`.
- `lost`: the last one, sent in its place, of a job whose process or host is gone; `why`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.run.ledger import RaceFinding
from codeflash_parallel.run.remote_hosts import RunPart
from codeflash_parallel.run.run_state import RaceMode, StepKind
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

Message = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class SentStep:
    """A step of the run that the host does not have to make.

    Attributes:
        key: of the step cache, in JSON.
        text: of its file.
    """

    kind: StepKind
    key: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class HostJob:
    """A part of a run, for one host.

    Attributes:
        version: of the submitting program.
        job: name of the job, unlike any other of the run.
        races: whether the run is going to race what passes.
        root: of the submitter's repository.
        repository: name of the repository's folder.
        project: folder of the project in it.
        settings: of the run, as `settings_document` writes them.
        cache_dir: the setting; a host's own environment goes before it.
        python: interpreter of the submitting process, used where the host has it at the same path.
        prepare: command that makes another one; empty: none.
        variables: that tests and candidates see, but for those that belong to a host.
        wants_evidence: checks look for all failures of a rejected candidate.
        constants: of the run's candidates, as far as they are known, numbers and texts.
        steps: that are made already.
        before: races that the run has held on this host.
    """

    version: str
    run_id: str
    job: str
    part: RunPart
    mode: RaceMode
    seed: int
    root: str
    repository: str
    project: str
    snapshot: Snapshot
    settings: Mapping[str, Any]
    cache_dir: str
    python: str
    prepare: str
    environment: EnvironmentStamp
    variables: Mapping[str, str]
    wants_evidence: bool
    submissions: tuple[Submission, ...]
    constants: tuple[Any, ...]
    steps: tuple[SentStep, ...]
    before: RaceFinding | None = None


class HostTask(Protocol):
    """A job in an engine's hands."""

    def messages(self) -> Iterator[Message]:
        """Yield messages until the last one, `ended`, `fault` or `lost`. Blocking."""
        ...

    def cancel(self) -> None:
        """End the job: its whole tree of processes is gone within 2 s. One that is over is left alone."""
        ...


class HostExecutor(Protocol):
    """An engine that runs jobs on hosts."""

    def hosts(self) -> Sequence[str]:
        """Return the names of the hosts that can be asked for; empty: the engine names none. Blocking."""
        ...

    def places(self, avoid: Collection[str]) -> int:
        """Return how many jobs can run at the same time, none on the hosts to avoid. Blocking."""
        ...

    def share(self, bundle: bytes) -> None:
        """Make the bundle of the snapshot available to every host that wants it. Blocking."""
        ...

    def submit(self, job: str, *, is_race: bool, avoid: Collection[str], wanted: str = "") -> HostTask:
        """Submit a job; it waits in the engine's own queue. Blocking.

        Args:
            job: text of a `HostJob`.
            is_race: it has the host to itself.
            avoid: hosts that do not get it.
            wanted: host that gets it; empty: any.

        Raises:
            EnvironmentFault: `HOST_GONE`: the wanted host is not there any more.
        """
        ...

    def close(self) -> None:
        """End what still runs, and leave the engine as it was found. Blocking."""
        ...
