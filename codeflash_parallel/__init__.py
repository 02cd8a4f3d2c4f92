"""N candidate patches go in; the fastest one that is still correct comes out, with proof.

Everything public is imported on first use, so that importing the package costs nothing (PEP 562).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeflash_parallel.config.settings import Settings as Settings
    from codeflash_parallel.hosts.argparse_option import (
        add_parallel_candidates_option as add_parallel_candidates_option,
    )
    from codeflash_parallel.queue.async_client import AsyncEvalQueueClient as AsyncEvalQueueClient
    from codeflash_parallel.queue.job_builder import job_request as job_request
    from codeflash_parallel.queue.jobs import Budget as Budget
    from codeflash_parallel.queue.jobs import JobEnded as JobEnded
    from codeflash_parallel.queue.jobs import JobKind as JobKind
    from codeflash_parallel.queue.jobs import JobState as JobState
    from codeflash_parallel.queue.jobs import Priority as Priority
    from codeflash_parallel.queue.queue_errors import BudgetSpent as BudgetSpent
    from codeflash_parallel.queue.queue_errors import QueueFull as QueueFull
    from codeflash_parallel.queue.queue_errors import RateLimited as RateLimited
    from codeflash_parallel.queue.queue_errors import Refused as Refused
    from codeflash_parallel.queue.queue_errors import SubmitterLimit as SubmitterLimit
    from codeflash_parallel.queue.queue_errors import UnknownJob as UnknownJob
    from codeflash_parallel.queue.queue_errors import UnknownKind as UnknownKind
    from codeflash_parallel.queue.sync_client import EvalQueueClient as EvalQueueClient
    from codeflash_parallel.repair.provider_protocol import Answer as Answer
    from codeflash_parallel.repair.provider_protocol import RefinementRequest as RefinementRequest
    from codeflash_parallel.repair.provider_protocol import RepairRequest as RepairRequest
    from codeflash_parallel.result.candidate_model import FileText as FileText
    from codeflash_parallel.result.candidate_model import FileTexts as FileTexts
    from codeflash_parallel.result.candidate_model import GitRef as GitRef
    from codeflash_parallel.result.candidate_model import ModelAnswer as ModelAnswer
    from codeflash_parallel.result.candidate_model import PatchText as PatchText
    from codeflash_parallel.result.candidate_model import Replacement as Replacement
    from codeflash_parallel.result.candidate_model import Submission as Submission
    from codeflash_parallel.result.errors import CodeflashParallelError as CodeflashParallelError
    from codeflash_parallel.result.errors import EnvironmentFault as EnvironmentFault
    from codeflash_parallel.result.errors import InternalError as InternalError
    from codeflash_parallel.result.errors import UsageError as UsageError
    from codeflash_parallel.result.result_model import CandidateResult as CandidateResult
    from codeflash_parallel.result.result_model import RunResult as RunResult
    from codeflash_parallel.run.evaluator import Evaluator as Evaluator
    from codeflash_parallel.run.evaluator import evaluate as evaluate
    from codeflash_parallel.run.evaluator import resume as resume
    from codeflash_parallel.run.evaluator import stored_run as stored_run
    from codeflash_parallel.run.run_state import RaceMode as RaceMode

__version__ = "0.1.0"

#: Public name → the module it lives in.
_HOMES = {
    "add_parallel_candidates_option": "hosts.argparse_option",
    "Evaluator": "run.evaluator",
    "RaceMode": "run.run_state",
    "evaluate": "run.evaluator",
    "job_request": "queue.job_builder",
    "AsyncEvalQueueClient": "queue.async_client",
    "EvalQueueClient": "queue.sync_client",
    "JobEnded": "queue.jobs",
    **dict.fromkeys(
        (
            *("BudgetSpent", "QueueFull", "RateLimited", "Refused"),
            *("SubmitterLimit", "UnknownJob", "UnknownKind"),
        ),
        "queue.queue_errors",
    ),
    "resume": "run.evaluator",
    "stored_run": "run.evaluator",
    "FileText": "result.candidate_model",
    "FileTexts": "result.candidate_model",
    "GitRef": "result.candidate_model",
    "ModelAnswer": "result.candidate_model",
    "PatchText": "result.candidate_model",
    "Replacement": "result.candidate_model",
    "Submission": "result.candidate_model",
    "CodeflashParallelError": "result.errors",
    "EnvironmentFault": "result.errors",
    "InternalError": "result.errors",
    "UsageError": "result.errors",
    **dict.fromkeys(("Budget", "JobKind", "JobState", "Priority"), "queue.jobs"),
    "Answer": "repair.provider_protocol",
    "RefinementRequest": "repair.provider_protocol",
    "RepairRequest": "repair.provider_protocol",
    "CandidateResult": "result.result_model",
    "RunResult": "result.result_model",
    "Settings": "config.settings",
}

__all__ = [*_HOMES, "__version__"]  # noqa: PLE0604 - names of the table above


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
