from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codeflash_parallel
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.repair.broker import (
    MAX_ABANDONED,
    WORKERS,
    ProviderSpending,
    RefinementContender,
    choose_refinements,
    may_repair,
    open_broker,
)
from codeflash_parallel.repair.provider_protocol import (
    Answer,
    ProviderAnswers,
    ProviderFailure,
    RefinementKind,
    RefinementRequest,
    RepairRequest,
)
from codeflash_parallel.result.candidate_model import CandidateId, PatchText
from codeflash_parallel.result.result_model import Speedup

pytestmark = pytest.mark.anyio

#: Generous: the machine may be busy; nothing here takes that long by itself.
LONG_S = 60.0
#: Whoever waited for this would never end.
FOR_EVER_S = 1e6
SHORT_S = 0.2


def repair(name="a"):
    return RepairRequest(
        candidate=CandidateId(name), targets=("m.py::f",), code="TESTS_FAILED", reason="", diff="", source=()
    )


def refinement(name="a"):
    return RefinementRequest(
        candidate=CandidateId(name), kind=RefinementKind.FIRST, targets=(), diff="", source=(),
        speedup=Speedup(estimate=2.0, low=1.9, high=2.1),
    )  # fmt: skip


def patch(text="p", **kwargs):
    return Answer(content=PatchText(patch=text), **kwargs)


@pytest.fixture
def gate():
    """An event that hanging providers wait for; set at the end, so that their threads end."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_repairer_and_a_refiner_answer():
    def repairer(request):
        return patch(f"fix {request.candidate}")

    def refiner(requests):
        return [patch(r.candidate, parent=r.candidate) for r in requests]

    async with open_broker(repairer, refiner, deadline_s=LONG_S) as broker:
        assert broker.repairs
        assert broker.refines
        assert await broker.request_repair(repair("x")) == ProviderAnswers(
            answers=(patch("fix x", parent="x"),)
        )
        batch = await broker.request_refinement([refinement("a"), refinement("b")])
        assert batch == ProviderAnswers(answers=(patch("a", parent="a"), patch("b", parent="b")))
        assert await broker.request_refinement([]) == ProviderAnswers(answers=())


async def test_nobody_to_ask():
    async with open_broker(deadline_s=LONG_S) as broker:
        assert not broker.repairs
        assert not broker.refines
        assert isinstance(await broker.request_repair(repair()), ProviderFailure)
        assert isinstance(await broker.request_refinement([refinement()]), ProviderFailure)


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "misbehave",
    [
        lambda: 1 / 0,
        lambda: sys.exit(3),
        lambda: [3],
        lambda: "patch",
        lambda: (_ for _ in ()).throw(UnprintableError()),
        lambda: (_ for _ in ()).throw(KeyboardInterrupt()),
        lambda: patch(""),
    ],
)
async def test_misbehaviour_costs_its_own_request_only(misbehave):
    def repairer(request):
        return misbehave() if request.candidate == "bad" else patch()

    async with open_broker(repairer, deadline_s=LONG_S) as broker:
        bad = await broker.request_repair(repair("bad"))
        assert isinstance(bad, ProviderFailure)
        assert bad.reason
        assert isinstance(await broker.request_repair(repair("good")), ProviderAnswers)


async def test_no_idea_is_an_answer():
    async with open_broker(lambda _request: None, deadline_s=LONG_S) as broker:
        assert await broker.request_repair(repair()) == ProviderAnswers(answers=())


@pytest.mark.slow
async def test_requests_are_worked_on_at_once():
    together = threading.Barrier(WORKERS)

    def repairer(_request):
        together.wait(LONG_S)
        return patch()

    outcomes = []

    async def ask(broker, n):
        outcomes.append(await broker.request_repair(repair(str(n))))

    async with open_broker(repairer, deadline_s=LONG_S) as broker, anyio.create_task_group() as group:
        for n in range(2 * WORKERS):
            group.start_soon(ask, broker, n)
    assert [type(o) for o in outcomes] == [ProviderAnswers] * 2 * WORKERS


async def test_a_hanging_provider_is_abandoned_and_its_answer_ignored(gate):
    hanging = []

    def repairer(request):
        if request.candidate == "hang":
            hanging.append(threading.current_thread())
            gate.wait()
        return patch()

    async with open_broker(repairer, deadline_s=SHORT_S) as broker:
        outcome = await broker.request_repair(repair("hang"))
        assert outcome == ProviderFailure(reason=f"The repairer gave no answer within {SHORT_S:g} s.")
        assert broker.repairs
        assert isinstance(await broker.request_repair(repair("next")), ProviderAnswers)
    # The gate opens after the test: it was left while somebody still hangs.
    assert hanging[0].is_alive()


async def test_an_endless_answer_hangs_in_its_own_thread(gate):
    def repairer(_request):
        yield patch()
        gate.wait()

    async with open_broker(repairer, deadline_s=SHORT_S) as broker:
        assert isinstance(await broker.request_repair(repair()), ProviderFailure)


async def test_too_many_hanging_providers_switch_them_off(gate):
    warnings = []

    def repairer(_request):
        gate.wait()

    async with open_broker(repairer, deadline_s=SHORT_S, warn=warnings.append) as broker:
        async with anyio.create_task_group() as group:
            for n in range(MAX_ABANDONED + 2):
                group.start_soon(broker.request_repair, repair(str(n)))
        assert not broker.repairs
        assert len(warnings) == 1
        assert isinstance(await broker.request_repair(repair()), ProviderFailure)


async def test_leaving_and_cancelling_wait_for_nobody(gate):
    asked, hanging = threading.Event(), []

    def repairer(_request):
        hanging.append(threading.current_thread())
        asked.set()
        gate.wait()

    async with open_broker(repairer, deadline_s=FOR_EVER_S) as broker, anyio.create_task_group() as group:
        group.start_soon(broker.request_repair, repair())
        await anyio.to_thread.run_sync(asked.wait)
        group.cancel_scope.cancel()
    assert hanging[0].is_alive()


async def test_a_provider_that_comes_back_after_the_loop_has_ended_disturbs_nobody(gate, capfd):
    back = threading.Event()

    def repairer(_request):
        try:
            gate.wait()
        finally:
            back.set()

    async def main():
        async with open_broker(repairer, deadline_s=SHORT_S) as broker:
            return await broker.request_repair(repair())

    for backend in ("asyncio", "trio"):
        outcome = await anyio.to_thread.run_sync(partial(anyio.run, main, backend=backend))
        assert isinstance(outcome, ProviderFailure)
    gate.set()
    await anyio.to_thread.run_sync(back.wait)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_whose_python_provider_hangs_in_a_child_exits(backend, tmp_path):
    """Our command line gives Python providers a process of their own: nothing joins at exit."""
    (tmp_path / "provider.py").write_text("import time\ndef fix(request):\n    time.sleep(600)\n")
    program = textwrap.dedent(f"""
        import anyio
        from codeflash_parallel.repair.broker import open_broker
        from codeflash_parallel.repair.command_providers import command_provider
        from codeflash_parallel.repair.provider_protocol import RepairRequest
        request = RepairRequest(candidate="a", targets=(), code="", reason="", diff="", source=())
        async def main():
            provider = command_provider("provider.py:fix", "repair", deadline_s=600)
            async with open_broker(provider, deadline_s=600) as broker:
                with anyio.move_on_after(1):
                    await broker.request_repair(request)
            print("left", flush=True)
        anyio.run(main, backend={backend!r})
        """)
    environment = {**os.environ, "PYTHONPATH": str(Path(codeflash_parallel.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, timeout=LONG_S, stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "left\n"


A, B = CandidateId("a"), CandidateId("b")


def contender(name, depth=0, speedup=2.0, parent_speedup=0.0):
    return RefinementContender(
        id=CandidateId(name), depth=depth, speedup=speedup, parent_speedup=parent_speedup
    )


@pytest.mark.parametrize(
    ("changes", "spent", "evidence", "expected"),
    [
        ({}, ProviderSpending(), 1, True),
        ({}, ProviderSpending(), 0, False),
        ({}, ProviderSpending(repairs={A: 1}), 1, False),
        ({}, ProviderSpending(repairs={B: 1}), 1, True),
        ({"repairs_per_candidate": 0}, ProviderSpending(), 1, False),
        ({"repairs_per_run": 2}, ProviderSpending(repairs={B: 2}), 1, False),
        ({"enough_correct": 2}, ProviderSpending(correct=1), 1, True),
        ({"enough_correct": 2}, ProviderSpending(correct=2), 1, False),
        ({}, ProviderSpending(correct=99), 1, True),
        ({"max_candidates": 3}, ProviderSpending(candidates=3), 1, False),
        ({"max_candidates": 3}, ProviderSpending(candidates=2), 1, True),
        ({}, ProviderSpending(seconds_left=0.0), 1, False),
    ],
)
def test_who_may_be_repaired(changes, spent, evidence, expected):
    assert may_repair(Settings(**changes), spent, A, evidence) is expected


@given(st.lists(st.sampled_from(["a", "b", "c", "d"])), st.integers(0, 3), st.integers(0, 6))
def test_granted_repairs_never_exceed_their_limits(roots, per_candidate, per_run):
    bounds = Settings(repairs_per_candidate=per_candidate, repairs_per_run=per_run)
    spent = ProviderSpending()
    for root in map(CandidateId, roots):
        if may_repair(bounds, spent, root, 1):
            spent = spent.with_repair(root)
    assert sum(spent.repairs.values()) <= per_run
    assert all(n <= per_candidate for n in spent.repairs.values())
    wanted = sum(min(per_candidate, roots.count(r)) for r in set(roots))
    assert sum(spent.repairs.values()) == min(per_run, wanted)


def test_the_top_k_are_refined_once():
    ranked = [contender("a"), contender("b"), contender("c")]
    assert choose_refinements(Settings(refine_top=2), ProviderSpending(), ranked) == ("a", "b")
    assert choose_refinements(Settings(refine_top=2), ProviderSpending(refined=frozenset({A})), ranked) == (
        "b",
    )
    assert choose_refinements(Settings(refine_top=0), ProviderSpending(), ranked) == ()


def test_depth_is_limited_and_a_lineage_that_gains_nothing_ends():
    ranked = [contender("deep", depth=2), contender("gains", 1, 3.0, 2.0), contender("stalls", 1, 1.9, 2.0)]
    assert choose_refinements(Settings(refine_top=3), ProviderSpending(), ranked) == ("gains",)
    assert choose_refinements(Settings(refine_depth=0), ProviderSpending(), [contender("a")]) == ()


def test_nothing_is_refined_without_time_or_candidates():
    assert choose_refinements(Settings(), ProviderSpending(seconds_left=0.0), [contender("a")]) == ()
    assert (
        choose_refinements(Settings(max_candidates=1), ProviderSpending(candidates=1), [contender("a")]) == ()
    )
