"""N candidate patches go in; the fastest one that is still correct comes out, with proof.

Everything public is imported on first use, so that importing the package costs nothing (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeflash_parallel.adapters.host import (
        add_parallel_candidates_option as add_parallel_candidates_option,
    )
    from codeflash_parallel.engine.again import resume as resume
    from codeflash_parallel.engine.again import stored_run as stored_run
    from codeflash_parallel.engine.evaluator import Evaluator as Evaluator
    from codeflash_parallel.engine.evaluator import evaluate as evaluate
    from codeflash_parallel.engine.race_mode import RaceMode as RaceMode
    from codeflash_parallel.engine.submitting import job_request as job_request
    from codeflash_parallel.evalqueue.async_client import AsyncEvalQueueClient as AsyncEvalQueueClient
    from codeflash_parallel.evalqueue.client import EvalQueueClient as EvalQueueClient
    from codeflash_parallel.evalqueue.outcomes import JobEnded as JobEnded
    from codeflash_parallel.evalqueue.refusals import BudgetSpent as BudgetSpent
    from codeflash_parallel.evalqueue.refusals import Duplicate as Duplicate
    from codeflash_parallel.evalqueue.refusals import QueueFull as QueueFull
    from codeflash_parallel.evalqueue.refusals import RateLimited as RateLimited
    from codeflash_parallel.evalqueue.refusals import Refused as Refused
    from codeflash_parallel.evalqueue.refusals import SubmitterLimit as SubmitterLimit
    from codeflash_parallel.evalqueue.refusals import UnknownJob as UnknownJob
    from codeflash_parallel.evalqueue.refusals import UnknownKind as UnknownKind
    from codeflash_parallel.model.candidate import FileText as FileText
    from codeflash_parallel.model.candidate import FileTexts as FileTexts
    from codeflash_parallel.model.candidate import GitRef as GitRef
    from codeflash_parallel.model.candidate import PatchText as PatchText
    from codeflash_parallel.model.candidate import Replacement as Replacement
    from codeflash_parallel.model.candidate import Submission as Submission
    from codeflash_parallel.model.errors import CodeflashParallelError as CodeflashParallelError
    from codeflash_parallel.model.errors import EnvironmentFault as EnvironmentFault
    from codeflash_parallel.model.errors import InternalError as InternalError
    from codeflash_parallel.model.errors import UsageError as UsageError
    from codeflash_parallel.model.jobs import Budget as Budget
    from codeflash_parallel.model.jobs import JobKind as JobKind
    from codeflash_parallel.model.jobs import JobState as JobState
    from codeflash_parallel.model.jobs import Priority as Priority
    from codeflash_parallel.model.providers import Answer as Answer
    from codeflash_parallel.model.providers import RefinementRequest as RefinementRequest
    from codeflash_parallel.model.providers import RepairRequest as RepairRequest
    from codeflash_parallel.model.result import CandidateResult as CandidateResult
    from codeflash_parallel.model.result import RunResult as RunResult
    from codeflash_parallel.model.settings import Settings as Settings

__version__ = "0.1.0"

#: Public name → the module it lives in.
_HOMES = {
    "add_parallel_candidates_option": "adapters.host",
    "Evaluator": "engine.evaluator",
    "RaceMode": "engine.race_mode",
    "evaluate": "engine.evaluator",
    "job_request": "engine.submitting",
    "AsyncEvalQueueClient": "evalqueue.async_client",
    "EvalQueueClient": "evalqueue.client",
    "JobEnded": "evalqueue.outcomes",
    **dict.fromkeys(
        (
            *("BudgetSpent", "Duplicate", "QueueFull", "RateLimited", "Refused"),
            *("SubmitterLimit", "UnknownJob", "UnknownKind"),
        ),
        "evalqueue.refusals",
    ),
    "resume": "engine.again",
    "stored_run": "engine.again",
    "FileText": "model.candidate",
    "FileTexts": "model.candidate",
    "GitRef": "model.candidate",
    "PatchText": "model.candidate",
    "Replacement": "model.candidate",
    "Submission": "model.candidate",
    "CodeflashParallelError": "model.errors",
    "EnvironmentFault": "model.errors",
    "InternalError": "model.errors",
    "UsageError": "model.errors",
    **dict.fromkeys(("Budget", "JobKind", "JobState", "Priority"), "model.jobs"),
    "Answer": "model.providers",
    "RefinementRequest": "model.providers",
    "RepairRequest": "model.providers",
    "CandidateResult": "model.result",
    "RunResult": "model.result",
    "Settings": "model.settings",
}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - names of the table above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
