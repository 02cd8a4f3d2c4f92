"""Every check of the gate, how to take it away, and the attack that comes through without it.

Nothing of this exists in the product: a check is switched off by replacing the function that decides.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from codeflash_parallel.result.outcome_codes import Code

CHECK = "codeflash_parallel.check"
MATERIALISE = "codeflash_parallel.workspace.snapshot.candidate_builder"


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One check taken away.

    Attributes:
        seams: ``module:name`` of what is replaced.
        made: returns the replacement of one of them.
        attack: of the corpus; rejected with the check and not without it.
        gate: part of the default gate; the others belong to the campaign.
    """

    check: str
    seams: tuple[str, ...]
    made: Callable[[Callable[..., Any]], Callable[..., Any]]
    attack: str
    gate: bool = False


def always(value: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda _original: lambda *_args, **_fields: value


def without(*codes: Code) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let what has one of these codes be fine."""

    def made(original: Callable[..., Any]) -> Callable[..., Any]:
        def judge(*args: Any, **fields: Any) -> Any:
            found = original(*args, **fields)
            if isinstance(found, Code):
                return Code.OK if found in codes else found
            return replace(found, code=Code.OK, reason="") if found.code in codes else found

        return judge

    return made


def without_manners(original: Callable[..., Any]) -> Callable[..., Any]:
    """Let values of a candidate tell what they hold in any way."""
    return lambda known, got, *rest: original(known, replace(got, manners=frozenset()), *rest)


VALUE_CODES = (Code.VALUE_DIFFERS, Code.TYPE_DIFFERS, Code.FLOAT_DIFFERS, Code.INPUT_MUTATED)

MUTATIONS = (
    Mutation(
        check="paths",
        seams=(f"{MATERIALISE}:refuse_path",),
        made=always(""),
        attack="conftest_repairs_the_module",
        gate=True,
    ),
    Mutation(
        check="shadowed modules",
        seams=(f"{MATERIALISE}:refuse_new",),
        made=always(""),
        attack="replaced_oracle",
    ),
    Mutation(
        check="tests that fail",
        seams=(f"{CHECK}.checker:compare_tests", f"{CHECK}.assessment:compare_tests"),
        made=without(Code.TESTS_FAILED),
        attack="wrong_beside_the_target",
        gate=True,
    ),
    Mutation(
        check="tests that are missing",
        seams=(f"{CHECK}.checker:compare_tests", f"{CHECK}.assessment:compare_tests"),
        made=without(Code.TESTS_MISSING),
        attack="skip_beside_the_target",
    ),
    Mutation(
        check="values of calls",
        seams=(
            f"{CHECK}.comparison.call_comparison:call_code",
            f"{CHECK}.comparison.value_comparison:_changed_global",
        ),
        made=lambda original: (always("") if original.__name__ == "_changed_global" else always(Code.OK))(
            original
        ),
        attack="wrong_in_what_is_not_asserted",
        gate=True,
    ),
    Mutation(
        check="types of values",
        seams=(f"{CHECK}.comparison.call_comparison:call_code",),
        made=without(Code.TYPE_DIFFERS),
        attack="another_type",
    ),
    Mutation(
        check="floats",
        seams=(f"{CHECK}.comparison.call_comparison:call_code",),
        made=without(Code.FLOAT_DIFFERS),
        attack="lower_precision",
    ),
    Mutation(
        check="arguments after the call",
        seams=(f"{CHECK}.comparison.call_comparison:call_code",),
        made=without(Code.INPUT_MUTATED),
        attack="mutated_input",
    ),
    Mutation(
        check="what calls leave behind",
        seams=(f"{CHECK}.comparison.value_comparison:_changed_global",),
        made=always(""),
        attack="dropped_side_effect",
    ),
    Mutation(
        check="objects shared between results",
        seams=(f"{CHECK}.comparison.call_comparison:call_code",),
        made=without(Code.STATE_DIFFERS),
        attack="shared_result",
    ),
    Mutation(
        check="output, variables and directory",
        seams=(f"{CHECK}.comparison.call_comparison:other_trace",),
        made=always(""),
        attack="dropped_output",
    ),
    Mutation(
        check="results that last",
        seams=(f"{CHECK}.comparison.call_comparison:call_code",),
        made=without(Code.STATE_DIFFERS),
        attack="inner_buffer_used_again",
    ),
    Mutation(
        check="how values tell what they hold",
        seams=(f"{CHECK}.assessment:compare_calls", "codeflash_parallel.warm.slot_servers:compare_calls"),
        made=without_manners,
        attack="reduce_of_an_argument",
    ),
    Mutation(
        check="calls with derived inputs",
        seams=(f"{CHECK}.comparison.value_comparison:_is_beyond",),
        made=always(True),
        attack="hard_coded_inputs",
    ),
    Mutation(
        check="replays without the tests",
        seams=(f"{CHECK}.call_replay:without",),
        made=always(nullcontext()),
        attack="right_only_beside_the_tests",
    ),
    Mutation(
        check="calls of watched functions",
        seams=("codeflash_parallel.run.check_phase.watched_functions:with_watched",),
        made=lambda _original: lambda outcome, _got, _uncompared: outcome,
        attack="right_only_for_its_test",
    ),
    Mutation(
        check="calls inside of tests",
        seams=(f"{CHECK}.assessment:compare_observed",),
        made=without(*VALUE_CODES),
        attack="wrong_for_what_cannot_be_copied",
    ),
    Mutation(
        check="canaries and the predicted status",
        seams=(f"{CHECK}.assessment:unbelievable",),
        made=always(None),
        attack="reports_beside_the_target",
    ),
    Mutation(
        check="the runner's own code",
        seams=(f"{CHECK}.integrity.process_faults:_replaced",),
        made=always(""),
        attack="told_apart_by_the_source",
    ),
    Mutation(
        check="the source that ran",
        seams=(f"{CHECK}.assessment:wrong_source",),
        made=always(None),
        attack="original_by_another_reader",
    ),
    Mutation(
        check="what is left in the slot",
        seams=("codeflash_parallel.run.check_phase.candidate_examiner:with_trace",),
        made=lambda _original: lambda outcome, *_left: outcome,
        attack="module_for_the_next_one",
    ),
    Mutation(
        check="processes left behind", seams=(f"{CHECK}.assessment:leak",), made=always(None), attack="daemon"
    ),
)

#: Checks that are not taken away, and why.
KEPT = {
    "the form of paths": "an attack that comes through writes outside of its slot",
    "deadlines and limits": "an attack that comes through never ends, or takes the machine's memory",
    "the end record": "whoever ends before it has left out tests, which are missing then",
    "the confirmation in a new process": "what differs there differs in the replay, which is one, too",
}


def take_away(mutation: Mutation, monkeypatch: Any) -> None:
    """Replace what decides until the test is over."""
    for seam in mutation.seams:
        module_name, _, name = seam.partition(":")
        module = importlib.import_module(module_name)
        monkeypatch.setattr(module, name, mutation.made(getattr(module, name)))
