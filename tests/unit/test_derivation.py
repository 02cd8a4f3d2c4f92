"""When the baseline is asked a second time: not within the second in which it was asked first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any, cast

import pytest

from codeflash_parallel.behavior.outcomes import CallOutcome
from codeflash_parallel.behavior.report import GuestReport
from codeflash_parallel.engine.derivation import Replays

pytestmark = pytest.mark.anyio


@dataclass(frozen=True, kw_only=True)
class Asked(Replays):
    """Replays that give the same each time, and say in which second that was."""

    got: GuestReport
    seconds: list[int] = field(default_factory=list)

    async def _replay(self, seed: int, calls: Sequence[int], derived: Sequence[int]) -> GuestReport:
        self.seconds.append(int(time()))
        return self.got


def _asked(captured_s: float, **got: Any) -> Asked:
    nothing = cast("Any", None)
    more: dict[str, Any] = {
        "captured_s": captured_s,
        "got": GuestReport(**got),
        "limits": nothing,
        "steps": nothing,
    }
    return Asked(guest=nothing, workspace=nothing, inputs=Path(), **more)


def _call(digest: str, after: str = "left") -> CallOutcome:
    return CallOutcome(index=0, test="t", target=0, kind="return", digest=digest, after=after)


async def test_the_second_replay_begins_in_a_later_second_than_the_captured_calls() -> None:
    captured_s = time()
    asked = _asked(captured_s, calls=(_call("seen"),))
    await asked.run({0: _call("seen")}, [0], GuestReport())
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
    await asked.run({0: _call("seen")}, [0], GuestReport())
    assert asked.seconds[1] > asked.seconds[0]
