"""The engine under an event loop, with signals that end it in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from codeflash_parallel.cli.exit_codes import SignalInterrupt
from codeflash_parallel.cli.signals import Interrupts
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.repair.provider_protocol import Refiner, Repairer
from codeflash_parallel.result.candidate.candidate_model import Submission
from codeflash_parallel.result.events import Event, Observer, RunStarted
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.run.evaluator import Evaluator
from codeflash_parallel.run.run_state import RaceMode


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluationRequest:
    """What an evaluation is asked to do.

    Attributes:
        resumes: id of the run to go on with; empty: a new one.
    """

    project: Path
    settings: Settings
    submissions: Sequence[Submission] = ()
    mode: RaceMode = RaceMode.RACE
    repairer: Repairer | None = None
    refiner: Refiner | None = None
    resumes: str = ""


def drive(plan: EvaluationRequest, observers: Sequence[Observer], interrupts: Interrupts) -> RunResult:
    """Evaluate, and return the result; after a signal, the incomplete one.

    Raises:
        Interrupted: a signal came before there was a run.
        UsageError, EnvironmentFault: the run could not be made.
    """
    return anyio.run(_driven, plan, observers, interrupts, backend="asyncio")


async def _driven(
    plan: EvaluationRequest, observers: Sequence[Observer], interrupts: Interrupts
) -> RunResult:
    evaluator = Evaluator(plan.project, plan.settings)
    scope = anyio.CancelScope()
    loop = asyncio.get_running_loop()
    started = False

    def note_start(event: Event) -> None:
        nonlocal started
        started = started or isinstance(event, RunStarted)

    def end(name: str) -> None:
        if started:
            evaluator.interrupt(name)
        else:
            scope.cancel()

    interrupts.passed_to(lambda name: loop.call_soon_threadsafe(end, name))
    with scope:
        async with evaluator:
            result = await _evaluated(plan, evaluator, (note_start, *observers))
        interrupts.come_too_late()
        return result
    raise SignalInterrupt(interrupts.received)


async def _evaluated(
    plan: EvaluationRequest, evaluator: Evaluator, observers: Sequence[Observer]
) -> RunResult:
    if plan.resumes:
        return await evaluator.resume(
            plan.resumes, repairer=plan.repairer, refiner=plan.refiner, observers=observers
        )
    return await evaluator.evaluate(
        plan.submissions,
        repairer=plan.repairer,
        refiner=plan.refiner,
        observers=observers,
        race=plan.mode,
    )
