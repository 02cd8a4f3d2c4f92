"""Specs of guests that make calls again, and of those that make inputs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codeflash_parallel.candidates.analysis.code_constants import Constant
from codeflash_parallel.check.comparison.call_comparison import DERIVED_INSIDE
from codeflash_parallel.check.session.runner_session import RunnerConfig

#: CPU seconds for trying inputs out on the baseline.
_TRY_S = 1.0

#: Derived inputs are numbered from here on; captured calls never get that far.
FIRST_DERIVED = 1_000_000


def replay_spec(
    guest: RunnerConfig,
    inputs: str,
    prove: Sequence[str],
    calls: Sequence[int],
    texts: Sequence[int] = (),
    derived: tuple[str, Sequence[int]] = ("", ()),
) -> dict[str, Any]:
    """Return the spec of a replay of captured calls, and of calls with derived inputs after them.

    Args:
        guest: of the run.
        inputs: the file that holds them.
        prove: paths whose compiled bytes are reported besides the targets'.
        calls: which ones, by their numbers.
        texts: those of them whose arguments and outcomes are put into words; of the rest there are digests.
        derived: the file that holds the derived inputs, and which ones, by their numbers.
    """
    path, numbers = derived
    more = {"derived": path, "derived_calls": list(numbers)} if numbers else {}
    return guest.spec("replay", prove, inputs=inputs, calls=list(calls), texts=list(texts), **more)


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivationRequest:
    """Which fresh inputs are to be made.

    Attributes:
        inside: so many of each target that keep all relations; a sixth of that may break one.
        check_s: CPU seconds that all that are kept may take on the baseline.
        constants: numbers and texts of the code, which become values, sizes and parts.
    """

    inside: int = DERIVED_INSIDE
    check_s: float = 0.1
    constants: tuple[Constant, ...] = ()


def derive_spec(
    guest: RunnerConfig,
    inputs: str,
    derived: str,
    calls: Sequence[int],
    raises: Mapping[int, Sequence[str]],
    wanted: DerivationRequest,
) -> dict[str, Any]:
    """Return the spec that has inputs derived from captured ones and tried out.

    Args:
        guest: of the run.
        inputs: the file that holds the captured ones.
        derived: the file for the derived ones.
        calls: the captured ones that were observed, by their numbers.
        raises: by the number of a target: types of exceptions that are normal outcomes of it.
        wanted: how many, and made of what.
    """
    normal = {str(target): list(types) for target, types in raises.items()}
    sizes = {"inside": wanted.inside, "outside": wanted.inside // 6, "first": FIRST_DERIVED}
    times = {"try_s": _TRY_S, "check_s": wanted.check_s}
    made = {"inputs": inputs, "derived": derived, "calls": list(calls), "raises": normal}
    return guest.spec("derive", (), **made, **sizes, **times, constants=list(wanted.constants))


def shrink_spec(
    guest: RunnerConfig, inputs: str, base: tuple[str, int], out: str, first: int, tries: int
) -> dict[str, Any]:
    """Return the spec that has simpler inputs made of one, and the call made with each.

    Args:
        guest: of the run.
        inputs: the file that holds the captured ones; it says where modules lie.
        base: the file that holds that one, and its number.
        out: the file for the simpler ones.
        first: their first number.
        tries: how many, at most.
    """
    path, number = base
    made = {"inputs": inputs, "base": path, "derived": out, "calls": [number]}
    return guest.spec("derive", (), **made, first=first, shrink=tries)
