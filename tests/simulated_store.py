"""What the queue's contract says about jobs, in forty lines: states, keys, fences, results. Not who is next."""

from __future__ import annotations

from dataclasses import dataclass, field

#: A job in one of these answers for its key.
KNOWN = {"queued", "running", "done", "dead"}


@dataclass
class ModelJob:
    key: str
    state: str = "queued"
    fence: int = 0
    crashes: int = 0
    faults: int = 0
    result: str = ""
    lease_end: float = 0.0
    ready_at: float = 0.0
    suspect: bool = False


@dataclass
class Model:
    attempts: int
    lease: float
    now: float = 0.0
    paused: bool = False
    jobs: dict[str, ModelJob] = field(default_factory=dict)

    def known(self, key: str) -> str | None:
        return next((name for name, job in self.jobs.items() if job.key == key and job.state in KNOWN), None)

    def claimable(self, slots: int) -> set[str]:
        self.sweep()
        running = [job for job in self.jobs.values() if job.state == "running"]
        alone = any(job.suspect for job in running)
        free = len(running) < slots and not self.paused and not alone
        ready = {
            name for name, job in self.jobs.items() if job.state == "queued" and job.ready_at <= self.now
        }
        return ready if free else set()

    def may_wait_to_be_alone(self, names: set[str]) -> bool:
        """Say whether the next one of some may be a suspect, which starts when nothing else runs."""
        is_busy = any(job.state == "running" for job in self.jobs.values())
        return is_busy and any(self.jobs[name].suspect for name in names)

    def claim(self, name: str) -> None:
        job = self.jobs[name]
        assert not (job.suspect and any(other.state == "running" for other in self.jobs.values()))
        job.state, job.fence, job.lease_end = "running", job.fence + 1, self.now + self.lease

    def fail(self, name: str, *, machinery: bool) -> None:
        job = self.jobs[name]
        job.crashes, job.faults = job.crashes + (not machinery), job.faults + machinery
        job.state = "dead" if (job.faults if machinery else job.crashes) >= self.attempts else "queued"
        job.ready_at = self.now + min(60, 2**job.faults) if machinery else self.now

    def lose(self, name: str) -> None:
        """A job's daemon has died."""
        self.jobs[name].suspect = True
        self.fail(name, machinery=False)

    def sweep(self) -> None:
        for name, job in self.jobs.items():
            if job.state == "running" and job.lease_end <= self.now:
                self.lose(name)
