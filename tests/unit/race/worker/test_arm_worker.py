"""The protocol of an arm, and the times of calls in place; real arms are in integration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeflash_parallel.race.measurement import Block, BlockKind
from codeflash_parallel.race.plan import Arm, WorkKind
from codeflash_parallel.race.race_result import ArmFailure, ArmResponseTimeout
from codeflash_parallel.race.worker.arm_worker import ArmTemplate, BlockRequest, CallWindows
from codeflash_parallel.result.runtime_protocols import ChannelClosed, Workspace

pytestmark = pytest.mark.anyio
PLACE = Path("/nowhere")
WORKSPACE = Workspace(
    root=PLACE, project=PLACE, user_root=PLACE, interpreter=PLACE, private=PLACE, environment={}
)


class Channel:
    """A channel that answers with one line, or raises."""

    pid = 1

    def __init__(self, answer):
        self._answer = answer

    async def receive(self, _deadline_s):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def template(answer):
    return ArmTemplate(Arm(id="a", workspace=WORKSPACE, spec={}), Channel(answer), WorkKind.CALLS)


@pytest.mark.parametrize(
    ("answer", "failure", "words"),
    [
        (b"no JSON", ArmFailure, "does not keep to the protocol"),
        (b"[]", ArmFailure, "does not keep to the protocol: no 'done'"),
        (json.dumps({"t": "armed"}).encode(), ArmFailure, "no 'done'"),
        (json.dumps({"t": "reaped", "status": 3}).encode(), ArmFailure, "ended with status 3"),
        (ChannelClosed(), ArmFailure, "ended before its time"),
        (TimeoutError(), ArmResponseTimeout, "said nothing for 1.5 s"),
    ],
)
async def test_an_arm_that_answers_otherwise_is_lost(answer, failure, words):
    with pytest.raises(failure, match=words):
        await template(answer).hear("done", 1.5)


async def test_the_expected_answer_is_returned():
    told = {"t": "out", "n": 1}
    assert await template(json.dumps(told).encode()).hear(("in", "out"), 1.0) == told


def test_a_block_of_calls_in_place_has_their_times_and_the_rest_apart():
    windows = CallWindows().with_one(30, 40).with_one(20, 25)
    block = Block(arm="a", kind=BlockKind.TIMED, cpu_ns=80, wall_ns=100, waited_ns=7, digest="d")
    found = windows.of(block)

    assert (found.windows, found.cpu_ns, found.wall_ns, found.rest_ns) == (2, 50, 65, 30)
    assert (found.waited_ns, found.digest) == (0, "d 2")


@pytest.mark.parametrize(
    ("kind", "lot", "encoded"),
    [
        (BlockKind.TIMED, "", 10),
        (BlockKind.TIMED, "a lot", 10),
        (BlockKind.TWIN, "", 15),
        (BlockKind.TWIN, "a lot", 12),
    ],
)
def test_twins_are_encoded_though_a_cycle_is_shorter(kind, lot, encoded):
    job = BlockRequest(kind=kind, calls=15, lot=lot, drawn=12)

    assert job.encoded(cycle=10) == encoded
    assert BlockRequest(kind=kind, calls=15, is_checked=False).encoded(cycle=10) == 0
