"""The interface of codeflash that is built on, and whether the installed one has it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from functools import reduce
from importlib.metadata import PackageNotFoundError, version
from typing import Any

#: The minor version whose interface was read; the extra `codeflash` is pinned to it.
VERSION = "0.20"
#: How it is installed.
INSTALL = "pip install 'codeflash-parallel[codeflash]'"

_OPTIMIZER = "codeflash.languages.python.function_optimizer:PythonFunctionOptimizer"
_ENTRIES = "codeflash.models.models:CandidateEvaluationContext"
#: Place of the property that names the class of optimizers.
SUPPORT, PROPERTY = "codeflash.languages.python.support:PythonSupport", "function_optimizer_class"

#: What is called or replaced, and the names of its parameters, in their order.
EXPECTED: Mapping[str, str] = {
    "codeflash.main:main": "",
    f"{SUPPORT}.{PROPERTY}": "self",
    f"{_OPTIMIZER}.determine_best_candidate": (
        "self candidates code_context original_code_baseline original_helper_code "
        "file_path_to_helper_classes exp_type function_references"
    ),
    f"{_OPTIMIZER}.process_single_candidate": (
        "self candidate_node candidate_index total_candidates code_context original_code_baseline "
        "original_helper_code file_path_to_helper_classes eval_ctx exp_type function_references "
        "normalized_original cached_normalized_code"
    ),
    f"{_OPTIMIZER}.select_best_optimization": (
        "self eval_ctx code_context original_code_baseline ai_service_client exp_type function_references"
    ),
    f"{_OPTIMIZER}.repair_if_possible": (
        "self candidate diffs eval_ctx code_context test_results_count exp_type"
    ),
    f"{_OPTIMIZER}.run_optimized_candidate": (
        "self optimization_candidate_index baseline_results original_helper_code file_path_to_helper_classes "
        "eval_ctx code_context candidate exp_type"
    ),
    f"{_OPTIMIZER}.handle_successful_candidate": (
        "self candidate candidate_result code_context original_code_baseline original_helper_code "
        "candidate_index eval_ctx"
    ),
    f"{_OPTIMIZER}.replace_function_and_helpers_with_optimized_code": (
        "self code_context optimized_code original_helper_code"
    ),
    f"{_OPTIMIZER}.write_code_and_helpers": "original_code original_helper_code path",
    f"{_ENTRIES}.record_failed_candidate": "self optimization_id",
    f"{_ENTRIES}.record_successful_candidate": "self optimization_id runtime speedup",
}


def installed_version() -> str:
    """Return the version of codeflash beside this interpreter; empty: there is none."""
    try:
        return version("codeflash")
    except PackageNotFoundError:
        return ""


def why_unknown(expected: Mapping[str, str] = EXPECTED) -> str:
    """Return why the installed codeflash cannot be built on, one clause; empty: it can.

    Args:
        expected: as `EXPECTED`.
    """
    installed = installed_version()
    if installed.split(".")[:2] != VERSION.split("."):
        return f"version {installed} is installed, and {VERSION} is the one that is known"
    return first_difference(expected)


def first_difference(expected: Mapping[str, str]) -> str:
    """Return what differs from the interface, one clause; empty: nothing."""
    for place, names in expected.items():
        try:
            found = " ".join(_parameters(find(place)))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            return f"{place} cannot be found: {error}"
        if found != names:
            return f"{place} has the parameters ({found}), not ({names})"
    return ""


def find(place: str) -> Any:
    """Return what a place names, `module:name.name`.

    Raises:
        ImportError, AttributeError: there is no such thing.
    """
    module, _, names = place.partition(":")
    return reduce(getattr, names.split("."), importlib.import_module(module))


def _parameters(found: Any) -> Iterable[str]:
    called: Any = found.fget if isinstance(found, property) else found
    return inspect.signature(called).parameters
