"""The store against models: what it does to jobs, and whom it serves next."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from effort import TIMES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule
from linearizable import check_history, record_history
from queue_lab import Lab, SetClock, open_lab
from simulated_queue import Entry, SimulatedQueue
from simulated_store import Model, ModelJob

from codeflash_parallel.queue.jobs import Job, JobKind, JobRequest, JobState, Priority, Strategy
from codeflash_parallel.queue.queue_errors import LeaseLost
from codeflash_parallel.queue.store.database import DatabaseFileCheck
from codeflash_parallel.result.errors import UsageError

SLOTS = 3
LEASE_S = 30.0

NAMES = st.sampled_from(["a", "b", "c"])
SECONDS = st.sampled_from([1.0, 9.0, 29.0, 31.0, 70.0])


class QueueMachine(RuleBasedStateMachine):
    """Any calls in any order: the store does what the model does."""

    jobs = Bundle("jobs")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="queue-"))
        self.stack = ExitStack()
        self.now = SetClock()
        self.start_s = self.now.boot_s
        self.model = Model(attempts=3, lease=LEASE_S)
        self.lab = self._opened()

    def _opened(self) -> Lab:
        lab = open_lab(self.folder, self.now, max_concurrent=SLOTS, queue_timeout=0.0, lease=LEASE_S)
        opened = self.stack.enter_context(lab)
        record_history(self.folder)
        return opened

    def teardown(self) -> None:
        self.stack.close()
        check_history(self.folder)
        shutil.rmtree(self.folder)

    @rule(target=jobs, submitter=NAMES, run=st.sampled_from(["", "r"]), key=st.integers(0, 5))
    def submit(self, submitter: str, run: str, key: int) -> str:
        request = JobRequest(kind=JobKind.CHECK, key=f"k{key}", payload="{}", submitter=submitter, run=run)
        self.model.sweep()
        known = self.model.known(request.key)
        receipt = self.lab.store.submit(request, self.now())
        assert receipt.is_new is (known is None)
        name = str(receipt.job.job_id)
        assert known in {None, name}
        self.model.jobs.setdefault(name, ModelJob(key=request.key))
        return name

    @rule(target=claims)
    def claim(self) -> tuple[str, int] | None:
        free = self.model.claimable(SLOTS)
        job = self.lab.claim()
        if job is None:
            assert not free or self.model.may_wait_to_be_alone(free)
            return None
        assert job.job_id in free
        self.model.claim(job.job_id)
        return job.job_id, job.fence

    def _report(self, claim: tuple[str, int] | None, report: str, **more: object) -> bool:
        """Report about a claim; say whether it was taken, which it is if the model says that it is held."""
        if claim is None:
            return False
        name, fence = claim
        held = self.model.jobs[name].state == "running" and self.model.jobs[name].fence == fence
        act = getattr(self.lab.store, report)
        positional = {"complete": ("result",), "heartbeat": ("progress",)}.get(report, ())
        if held:
            act(name, fence, *positional, self.now(), **more)
            return True
        with pytest.raises(LeaseLost):
            act(name, fence, *positional, self.now(), **more)
        return False

    @rule(claim=claims)
    def complete(self, claim: tuple[str, int] | None) -> None:
        if self._report(claim, "complete", cpu_s=1.0, wall_s=2.0):
            assert claim is not None
            job = self.model.jobs[claim[0]]
            job.state, job.result, job.suspect = "done", "result", False

    @rule(claim=claims, machinery=st.booleans())
    def fail(self, claim: tuple[str, int] | None, machinery: bool) -> None:
        said = {"fault": "F", "machinery": machinery, "last_output": "", "cpu_s": 1.0, "wall_s": 1.0}
        if self._report(claim, "fail", **said):
            assert claim is not None
            self.model.fail(claim[0], machinery=machinery)

    @rule(claim=claims)
    def release(self, claim: tuple[str, int] | None) -> None:
        if self._report(claim, "release"):
            assert claim is not None
            job = self.model.jobs[claim[0]]
            job.state, job.ready_at = "queued", 0.0

    @rule(claim=claims)
    def abandon(self, claim: tuple[str, int] | None) -> None:
        if self._report(claim, "abandon"):
            assert claim is not None
            self.model.lose(claim[0])

    @rule(claim=claims)
    def heartbeat(self, claim: tuple[str, int] | None) -> None:
        if self._report(claim, "heartbeat"):
            assert claim is not None
            self.model.jobs[claim[0]].lease_end = self.model.now + LEASE_S

    @rule(name=jobs)
    def cancel(self, name: str) -> None:
        job = self.model.jobs[name]
        if job.state in {"queued", "running"}:
            job.state = "cancelled"
        assert self.lab.store.cancel(name, self.now()) == job.state

    @rule(name=jobs)
    def retry(self, name: str) -> None:
        job = self.model.jobs[name]
        if job.state != "dead":
            with pytest.raises(UsageError):
                self.lab.store.retry(name, self.now())
            return
        self.lab.store.retry(name, self.now())
        job.state, job.crashes, job.faults, job.ready_at = "queued", 0, 0, 0.0

    @rule(seconds=SECONDS)
    def wait(self, seconds: float) -> None:
        self.now(later_s=seconds)
        self.model.now = self.now.boot_s - self.start_s

    @rule(wall_s=st.sampled_from([-86_400.0, 86_400.0]))
    def step_the_wall_clock(self, wall_s: float) -> None:
        self.now.wall_s += wall_s

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        (self.lab.store.pause if paused else self.lab.store.unpause)(self.now())
        self.model.paused = paused

    @rule()
    def open_again(self) -> None:
        self.stack.close()
        self.lab = self._opened()

    @precondition(lambda self: self.model.jobs)
    @invariant()
    def jobs_are_those_of_the_model(self) -> None:
        told = {
            job.job_id: (job.state, job.fence, job.crashes, job.machinery_faults, job.suspect)
            for job in self.lab.store.jobs()
        }
        expected = {
            name: (job.state, job.fence, job.crashes, job.faults, job.suspect)
            for name, job in self.model.jobs.items()
        }
        assert told == expected

    @invariant()
    def positions_are_one_to_n(self) -> None:
        waiting = self.lab.store.jobs(states={JobState.QUEUED})
        places = [
            self.lab.store._accounts.place(self._row(job), 0).position
            for job in waiting
            if self._row(job)["ready"]
        ]
        assert sorted(places) == list(range(1, len(places) + 1))

    def _row(self, job: Job):
        return self.lab.store._database.row("SELECT * FROM jobs WHERE number = ?", (job.number,))


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=25 * TIMES, stateful_step_count=30, deadline=None)


# Whom the store serves is whom the simulation serves


@pytest.mark.parametrize("seed", range(16 * TIMES))
def test_store_and_simulation_serve_the_same_jobs(tmp_path: Path, seed: int):
    rng = random.Random(seed)
    limits = {
        "max_concurrent": rng.randint(1, 6),
        "strategy": rng.choice([Strategy.FAIR, Strategy.FAIR, *Strategy]),
        "per_submitter_running": rng.choice([0, 1, 2]),
        "kind_limits": rng.choice([{}, {"race": 1}, {"race": 1, "check": 2}]),
        "weights": rng.choice([{}, {"s0": 2.0, "r1": 0.5}]),
    }
    now = SetClock()
    model = SimulatedQueue(
        slots=limits["max_concurrent"], strategy=limits["strategy"], weights=limits["weights"],
        per_submitter_running=limits["per_submitter_running"], kind_limits=limits["kind_limits"],
    )  # fmt: skip
    done: Counter[str] = Counter()
    with open_lab(tmp_path, now, check=DatabaseFileCheck.HEADER, queue_timeout=0.0, **limits) as lab:
        jobs: dict[int, Job] = {}
        for step in range(90):
            act = rng.choice(
                ["submit", "submit", "claim", "claim", "complete", "release", "cancel", "wait", "place"]
            )
            running = sorted(model.running)
            if act == "submit":
                _submit_both(rng, lab, model, jobs, step)
            elif act == "claim":
                job, entry = lab.claim(), model.claim()
                assert (job and job.number) == (entry and entry.number), step
                if job is not None:
                    jobs[job.number] = job
            elif act in {"complete", "release"} and running:
                entry = model.running[rng.choice(running)]
                _end_both(act, rng, lab, model, jobs[entry.number], entry)
            elif act == "cancel" and model.waiting and rng.random() < 0.5:
                entry = rng.choice([entry for lane in model.waiting.values() for entry in lane])
                lab.store.cancel(jobs[entry.number].job_id, now())
                model.cancel(entry)
            elif act == "place" and model.waiting:
                entry = rng.choice([entry for lane in model.waiting.values() for entry in lane])
                place = lab.store.place(jobs[entry.number].job_id, now())
                assert place.position == model.position(entry), step
            else:
                now(later_s=0.5)
            done[act] += 1
    assert done["claim"] > 5


def _submit_both(
    rng: random.Random, lab: Lab, model: SimulatedQueue, jobs: dict[int, Job], step: int
) -> None:
    submitter = rng.choice(["s0", "s1", "s2"])
    run = rng.choice(["", "r1", "r2"])
    kind = rng.choice([JobKind.CHECK, JobKind.RACE])
    priority = rng.choice(list(Priority))
    job = lab.submit(submitter, key=f"k{step}", run=run, kind=kind, priority=priority)
    jobs[job.number] = job
    now_ms = round((lab.now.boot_s - 1000.0) * 1000) + 1
    entry = model.submit(submitter, run=run, kind=kind, priority=priority, now_ms=now_ms)
    assert entry.number == job.number


def _end_both(act: str, rng: random.Random, lab: Lab, model: SimulatedQueue, job: Job, entry: Entry) -> None:
    if act == "release":
        lab.store.release(job.job_id, job.fence, lab.now())
        model.release(entry)
        return
    cpu_s = rng.choice([0.1, 1.0, 10.0])
    lab.complete(job, cpu_s=cpu_s)
    entry.cost_us = round(cpu_s * 1e6)
    model.complete(entry)
