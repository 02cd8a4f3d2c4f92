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
        busy = sum(job.state == "running" for job in self.jobs.values())
        free = busy < slots and not self.paused
        ready = {
            name for name, job in self.jobs.items() if job.state == "queued" and job.ready_at <= self.now
        }
        return ready if free else set()

    def claim(self, name: str) -> None:
        job = self.jobs[name]
        job.state, job.fence, job.lease_end = "running", job.fence + 1, self.now + self.lease

    def fail(self, name: str, *, machinery: bool) -> None:
        job = self.jobs[name]
        job.crashes, job.faults = job.crashes + (not machinery), job.faults + machinery
        job.state = "dead" if (job.faults if machinery else job.crashes) >= self.attempts else "queued"
        job.ready_at = self.now + min(60, 2**job.faults) if machinery else self.now

    def sweep(self) -> None:
        for name, job in self.jobs.items():
            if job.state == "running" and job.lease_end <= self.now:
                self.fail(name, machinery=False)
