"""Replays on the baseline: in which second they begin, and what may depend on their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import Any, cast

import pytest

from codeflash_parallel.baseline.input_derivation import HISTORY, BaselineReplayer
from codeflash_parallel.check.session.runner_report import CallOutcome, DerivedInput, RunnerReport
from codeflash_parallel.config.environment import HASH_SEEDS

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Asked(BaselineReplayer):
    """Replays that give the same each time, and say in which second that was."""

    got: RunnerReport
    digest: Callable[[int, int, Sequence[int]], str] = lambda *_: ""
    seconds: list[int] = field(default_factory=list)

    async def _replay(self, seed: int, calls: Sequence[int], derived: Sequence[int]) -> RunnerReport:
        """Give what is given each time, and of a derived call what `digest` says of the ones before it."""
        self.seconds.append(int(time()))
        made = [
            replace(_call(self.digest(seed, index, derived[:place])), index=index)
            for place, index in enumerate(derived)
        ]
        return replace(self.got, calls=(*self.got.calls, *made))


def _asked(
    captured_s: float, digest: Callable[[int, int, Sequence[int]], str] = lambda *_: "", **got: Any
) -> Asked:
    nothing = cast("Any", None)
    more: dict[str, Any] = {
        "captured_s": captured_s,
        "got": RunnerReport(**got),
        "limits": nothing,
        "steps": nothing,
    }
    return Asked(runner=nothing, workspace=nothing, inputs=Path(), digest=digest, **more)


def _call(digest: str, after: str = "left") -> CallOutcome:
    return CallOutcome(index=0, test="t", target=0, kind="return", digest=digest, after=after)


async def test_the_second_replay_begins_in_a_later_second_than_the_captured_calls() -> None:
    captured_s = time()
    asked = _asked(captured_s, calls=(_call("seen"),))
    await asked.run({0: _call("seen")}, [0], RunnerReport())
    assert len(asked.seconds) == 2
    assert asked.seconds[1] > int(captured_s)


@pytest.mark.parametrize(
    "got",
    [
        {"calls": (_call("other"),)},
        {"calls": (_call("seen", after="other"),)},
        {"calls": (_call("seen"),), "changed_globals": {"m.LAST": "digest"}},
    ],
)
async def test_if_the_first_replay_may_tell_seconds_the_second_begins_in_a_later_one(got: Any) -> None:
    asked = _asked(0.0, **got)
    await asked.run({0: _call("seen")}, [0], RunnerReport())
    assert asked.seconds[1] > asked.seconds[0]


FRESH = RunnerReport(derived={index: DerivedInput(base=0) for index in range(1, 9)})


async def _breaks(digest: Callable[[int, int, Sequence[int]], str]) -> dict[int, str]:
    """Return the derived calls that are kept, and which relation each breaks."""
    asked = _asked(0.0, digest, calls=(_call("seen"),))
    _, found = await asked.run({0: _call("seen")}, [0], FRESH)
    return {index: found.breaks.get(index, "") for index in found.calls}


async def test_where_outcomes_depend_on_the_order_of_calls_no_derived_call_vouches() -> None:
    """Call 7 tells whether 8 came before it. Call 3 gives something else once 7 is left out."""

    def digest(_seed: int, index: int, before: Sequence[int]) -> str:
        told = {7: 8 in before, 3: 8 in before and 7 not in before}
        return str(told.get(index))

    assert await _breaks(digest) == dict.fromkeys((1, 2, 4, 5, 6, 8), HISTORY)


async def test_what_gives_the_same_in_any_order_vouches_though_other_calls_depend_on_the_hash_seed() -> None:
    kept = await _breaks(lambda seed, index, _before: f"{seed if index > 5 else 0}")
    assert kept == dict.fromkeys(range(1, 6), "")
    assert HASH_SEEDS[0] != HASH_SEEDS[1]


async def test_outcomes_that_no_order_of_the_rest_changes_vouch() -> None:
    kept = await _breaks(lambda _seed, index, _before: f"{index}")
    assert kept == dict.fromkeys(range(1, 9), "")
