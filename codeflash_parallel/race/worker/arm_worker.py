"""One arm at work: the evaluator's half of the arm protocol, and its clocks.

The child's word about time is never used. The parent reads the CPU clock of the unit's process (all its
threads) and its own monotonic clock, before GO and after DONE; at both moments the unit is blocked in a
read. That matters: the kernel brings another process's CPU clock up to date only when that process leaves
the core, so a clock read from a running unit is late by up to a scheduler tick (measured: 0 to 5.5 ms for a
block of 2.3 ms, against 2.2 to 2.3 ms when the unit waits).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.accept_function import AcceptFunction, AcceptQuestion
from codeflash_parallel.process.launcher.child_connection import ControlChannel
from codeflash_parallel.process.process_table import child_called, children, own_number
from codeflash_parallel.race.measurement import Block, BlockKind
from codeflash_parallel.race.plan import Arm, WorkKind
from codeflash_parallel.race.race_result import ArmFailure, ArmResponseTimeout, ArmWorkTimeout
from codeflash_parallel.race.worker.leftover_files import LeftoverFiles, private_folders
from codeflash_parallel.race.worker.process_accounting import (
    ProcessAccounting,
    ProcessEnded,
    cpu_with_children_ns,
    own_queued_ns,
    reaped_children_ns,
)
from codeflash_parallel.result.runtime_protocols import ChannelClosed, ProcessExit, Workspace

#: Seconds for what costs a few milliseconds: forking, copying arguments, encoding outcomes. Generous,
#: because reaching it throws an arm out of the race.
SMALL_S = 20.0

#: By so much the process table may be wrong about the CPU time between two looks: user and system time, each
#: rounded down to a tick of ten milliseconds.
TABLE_GRAIN_NS = 20_000_000

#: Seconds; an arm that has so much left of its time is not waited for again.
GRAIN_S = 0.01

#: Nanoseconds in a second.
SECOND = 1_000_000_000

#: Results of a block that a jury is asked about: enough in a dozen rounds for a call in ten that is wrong.
DRAWN_RESULTS = 4
#: No seed: an arm could know that.
_RANDOM = SystemRandom()

#: What the first process of a namespace calls itself, and the one that it starts, which is the runner.
_INIT, _RUNNER = 1, 2
#: Folders that all programs share; in a namespace of files they are new, and the arm's alone.
_SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - only looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledResult:
    """A result of a timed call that was drawn, and is none of those that were accepted before.

    Attributes:
        call: number of the captured call.
        digest: of the result.
        plain: the result, a JSON text; empty where it cannot be told, and `untold` says what it holds.
    """

    arm: str
    call: int
    digest: str
    plain: str
    untold: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultJudge:
    """The user's judge of results in a race."""

    judge: AcceptFunction
    baseline: Baseline

    def accepts(self, call: int, digest: str, /) -> bool:
        """Return whether a result was accepted before, or is the baseline's."""
        expected = self.baseline.expected_call(call)
        if expected is None:
            return False
        return digest == expected.digest or not self.judge.why_not(expected.index, digest)

    async def refused(self, results: Sequence[SampledResult], /) -> Mapping[str, str]:
        """Return the arms of which a result is not accepted, and why, one clause each.

        Raises:
            UsageError: `BAD_JUDGE`.
        """
        await self.judge.ask(self.baseline, filter(None, map(self._question, results)))
        found = {result.arm: why for result in reversed(results) if (why := self._objection(result))}
        return {
            arm: f"a timed call gives a result that {self.judge.place} {why}" for arm, why in found.items()
        }

    def _question(self, result: SampledResult) -> AcceptQuestion | None:
        expected = self.baseline.expected_call(result.call)
        if expected is None or not result.plain:
            return None
        return AcceptQuestion(call=expected.index, digest=result.digest, plain=result.plain)

    def _objection(self, result: SampledResult) -> str:
        """Return why a result is not accepted; empty: it is."""
        expected = self.baseline.expected_call(result.call)
        if expected is None or not result.plain:
            return f"cannot be given: it holds {result.untold or 'nothing'}"
        why = self.judge.why_not(expected.index, result.digest)
        return why and f"does not accept ({expected.test}): {why}"


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerLocation:
    """An arm's place.

    Attributes:
        pid: the process in which the arm's code runs.
        init: the first process of its namespace, in which no code of a project runs; 0: it has none.
    """

    pid: int
    init: int = 0

    @property
    def shares_memory(self) -> bool:
        """Whether its shared memory is that of all programs; one of its own is emptied after each round."""
        return not self.init

    def leftovers(self, workspace: Workspace) -> LeftoverFiles:
        """Return the folders that are to be emptied after each round, as they are now."""
        if not self.init:
            return LeftoverFiles(private_folders(workspace))
        return LeftoverFiles((workspace.seen(workspace.private), *_SHARED), Path(f"/proc/{self.init}/root"))


def _location_of(pid: int, workspace: Workspace) -> WorkerLocation:
    """Return the place of an arm, as the kernel knows it: what the arm says of itself is not asked for.

    Args:
        pid: the process that the launcher follows; with a process namespace it only waits for the arm.
        workspace: the arm's.

    Raises:
        ProcessEnded: it has ended.
    """
    if not workspace.isolation.level.has_process_namespace:
        return WorkerLocation(pid=pid)
    init = next((child for child in children(pid) if own_number(child) == _INIT), 0)
    runner = child_called(init, _RUNNER) if init else 0
    if not runner:
        raise ProcessEnded
    return WorkerLocation(pid=runner, init=init)


class ArmTemplate:
    """A warm process of one arm, from which its units are forked. Made by `start_template`."""

    def __init__(
        self, arm: Arm, channel: ControlChannel, work: WorkKind, jury: ResultJudge | None = None
    ) -> None:
        self.arm, self.work, self.jury = arm.id, work, jury
        self.results: list[SampledResult] = []
        self.cycles: tuple[int, ...] = ()
        self.twins: tuple[int, ...] = ()
        self.why_fewer = ""  # why the first call that is left out cannot be made
        self.helpers = 0
        self._channel = channel
        self.workspace = arm.workspace
        self.seat = WorkerLocation(pid=channel.pid)

    async def ready(self, deadline_s: float) -> int:
        """Wait until imports are done and inputs are loaded; return what that took in CPU nanoseconds.

        Raises:
            ArmFailure: it does not come up.
        """
        answer = await self.hear("ready", deadline_s)
        self.cycles, self.twins = _numbers(answer, "calls"), _numbers(answer, "twins")
        self.why_fewer = next(iter(answer.get("skipped", {}).values()), "")
        try:
            self.seat = _location_of(self._channel.pid, self.workspace)
        except ProcessEnded:
            raise ArmFailure("ended before its time") from None
        self.helpers = ProcessAccounting(self.seat.pid).children()
        return cpu_with_children_ns(self.seat.pid)

    async def fork(self, number: int, core: int) -> ArmWorker:
        """Fork a unit onto a core (-1: wherever it may run).

        Raises:
            ArmFailure: it does not answer, or answers with a process that is not its child.
        """
        await self.say({"op": "unit", "core": None if core < 0 else core, "unit": number})
        answer = await self.hear("unit", SMALL_S)
        pid = child_called(self.seat.pid, _number(answer, "pid"))
        if not pid:
            raise ArmFailure("named a process that is not its own to be timed")
        return ArmWorker(self, pid)

    def rss_bytes(self) -> int:
        """Return the resident memory of the process."""
        return ProcessAccounting(self.seat.pid).memory().now

    async def close(self) -> ProcessExit:
        """Kill the process and its units; return how it ended."""
        return await self._channel.close()

    async def say(self, message: dict[str, Any] | None) -> None:
        """Send one message; `None`: an empty one, which lets a unit go on that has announced something."""
        try:
            await self._channel.send(json.dumps(message).encode() if message else b"")
        except ChannelClosed:
            raise ArmFailure("ended before its time") from None

    async def hear(self, expected: str | tuple[str, ...], deadline_s: float) -> dict[str, Any]:
        """Return the next message, which must be of the expected kind, or of one of them."""
        kinds = (expected,) if isinstance(expected, str) else expected
        try:
            answer = json.loads(await self._channel.receive(deadline_s))
        except ChannelClosed:
            raise ArmFailure("ended before its time") from None
        except TimeoutError:
            raise ArmResponseTimeout(f"said nothing for {deadline_s:.1f} s") from None
        except ValueError:
            raise ArmFailure("does not keep to the protocol") from None
        if not isinstance(answer, dict) or answer.get("t") not in kinds:
            raise ArmFailure(_unexpected(answer, kinds[-1]))
        return answer


def _number(answer: Mapping[str, Any], name: str, absent: int | None = None) -> int:
    """Return a number that an arm says; what else it may say there is no protocol of ours."""
    found = answer.get(name, absent)
    if not isinstance(found, int):
        raise ArmFailure(f"does not keep to the protocol: no number {name!r}")
    return found


def _numbers(answer: Mapping[str, Any], name: str) -> tuple[int, ...]:
    found = answer.get(name)
    if not isinstance(found, list) or not all(isinstance(one, int) for one in found):
        raise ArmFailure(f"does not keep to the protocol: no numbers {name!r}")
    return tuple(found)


def _pairs(answer: Mapping[str, Any]) -> list[tuple[int, str]]:
    found = answer.get("outcomes")
    if not isinstance(found, list) or not all(isinstance(p, list) and len(p) == 2 for p in found):  # noqa: PLR2004
        raise ArmFailure("does not keep to the protocol: no outcomes")
    return [(_number({"of": number}, "of"), str(digest)) for number, digest in found]


def _unexpected(answer: object, expected: str) -> str:
    if isinstance(answer, dict) and answer.get("t") == "reaped":
        return f"ended with status {answer.get('status')} while it was timed"
    return f"does not keep to the protocol: no {expected!r}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockRequest:
    """Order for one block: so many calls of a group, from a certain input on.

    Attributes:
        is_checked: its outcomes are looked at. The arm learns of it when the calls are done.
        lot: draws the outcomes that are looked at; empty: all are. The arm learns of it with the check.
        drawn: how many it draws.
    """

    kind: BlockKind
    group: int = 0
    calls: int = 0
    start: int = 0
    is_checked: bool = True
    lot: str = ""
    drawn: int = 0

    def encoded(self, cycle: int) -> int:
        """Return how many outcomes are encoded; blocks of the same calls are compared by the same ones only.

        Args:
            cycle: calls of one pass over the group. Twins are other calls, of which a block holds each once.
        """
        if not self.is_checked:
            return 0
        distinct = self.calls if self.kind is BlockKind.TWIN else min(self.calls, cycle)
        return min(distinct, self.drawn) if self.lot else distinct


class CallWindows(NamedTuple):
    """Calls of the targets inside their tests, as the parent's clocks saw them; times in nanoseconds."""

    calls: int = 0
    cpu_ns: int = 0
    wall_ns: int = 0

    def with_one(self, cpu_ns: int, wall_ns: int) -> CallWindows:
        """Return them with one more."""
        return CallWindows(self.calls + 1, self.cpu_ns + cpu_ns, self.wall_ns + wall_ns)

    def of(self, block: Block) -> Block:
        """Return a block with these as its times, and how many there were among its outcomes."""
        return replace(
            block,
            cpu_ns=self.cpu_ns,
            wall_ns=self.wall_ns,
            waited_ns=0,
            windows=self.calls,
            rest_ns=block.cpu_ns - self.cpu_ns,
            digest=block.digest and f"{block.digest} {self.calls}",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerUsage:
    """Resources that a unit had used when it ended.

    Attributes:
        children_ns: CPU time that `wait4` knows of and the unit's own clock does not, commands that it was to
            run apart.
        peak_bytes: most resident memory beyond what it held when it was forked.
    """

    children_ns: int
    peak_bytes: int


class ArmWorker:
    """A fork of a template, on one core, for one round.

    Attributes:
        said: why the work of the last block failed, in its own words; empty when it did not, or is calls.
    """

    def __init__(self, template: ArmTemplate, pid: int) -> None:
        self._template = template
        self._witness = ProcessAccounting(pid)
        self._forked_bytes = self._witness.memory().now
        self._reaped_before_ns = reaped_children_ns(template.seat.pid)
        self._commands_ns = 0
        self._kept = 0
        self.said = ""

    async def block(self, job: BlockRequest, deadline_s: float) -> Block:
        """Run one block and return what the clocks said.

        Raises:
            ArmFailure: the unit dies or breaks the protocol; `ArmWorkTimeout` when its calls take too long.
        """
        template, witness = self._template, self._witness
        idle = self._cpu_ns()
        order = {"op": "block", "group": job.group, "calls": job.calls, "start": job.start}
        await template.say(order | {"twins": job.kind is BlockKind.TWIN})
        await template.hear("armed", SMALL_S)
        before, own_queued = witness.counts(), own_queued_ns()
        wall, cpu = time.perf_counter_ns(), self._cpu_ns()
        await template.say({"op": "go"})
        windows = await self._windows(deadline_s) if template.work is WorkKind.IN_PLACE else None
        done = {} if windows is not None else await self._done(deadline_s, cpu, before.queued_ns)
        own_ns, wall_ns = self._cpu_ns() - cpu, time.perf_counter_ns() - wall
        # Only the runner can account for commands that it ran; it then runs no code of a candidate itself.
        told = done if template.work is WorkKind.COMMAND else {}
        commands_ns = max(0, _number(told, "children_ns", 0))
        self._commands_ns += commands_ns
        cpu_ns = own_ns + commands_ns
        after, children = witness.counts(), witness.children()
        # Time in line is nobody's waiting: neither the unit's nor ours, when DONE is there to be read.
        queued_ns = after.queued_ns - before.queued_ns + own_queued_ns() - own_queued
        queued_ns += max(0, _number(told, "queued_ns", 0))
        digest = await self._checked(job, deadline_s) if job.is_checked else ""
        block = Block(
            arm=template.arm,
            kind=job.kind,
            group=job.group,
            calls=job.calls,
            start=job.start,
            cpu_ns=cpu_ns,
            wall_ns=wall_ns,
            waited_ns=max(0, wall_ns - cpu_ns - queued_ns),
            prepared_ns=cpu - idle,
            digest=digest if job.calls else "",
            deferred_ns=self._cpu_ns() - cpu - own_ns if job.is_checked else 0,
            reads=after.reads - before.reads,
            children=children,
        )
        if job.is_checked and template.jury is not None:
            template.results += await self._results(template.jury, deadline_s)
        return block if windows is None else windows.of(block)

    async def _windows(self, deadline_s: float) -> CallWindows:
        """Read the clocks whenever a call of the targets begins or ends, until the tests are done.

        Raises:
            ArmWorkTimeout: they are not done in time.
        """
        began, opened, found = time.perf_counter_ns(), (0, 0), CallWindows()
        while (left_s := deadline_s - (time.perf_counter_ns() - began) / SECOND) > GRAIN_S:
            try:
                told = (await self._template.hear(("near", "in", "out", "done"), left_s))["t"]
            except ArmResponseTimeout:
                break
            if told == "done":
                return found
            now = time.perf_counter_ns(), self._cpu_ns()
            if told == "in":
                opened = now
            elif told == "out":
                found = found.with_one(now[1] - opened[1], now[0] - opened[0])
            await self._template.say(None)
        raise ArmWorkTimeout(f"its tests were not done after {deadline_s:.1f} s")

    async def _results(self, jury: ResultJudge, deadline_s: float) -> list[SampledResult]:
        """Draw some results of the last block, and return those about which the jury knows nothing."""
        places = _RANDOM.sample(range(self._kept), min(self._kept, DRAWN_RESULTS))
        await self._template.say({"op": "look", "places": places})
        looked = await self._template.hear("looked", SMALL_S + deadline_s)
        return [
            await self._told(number, digest, deadline_s)
            for number, digest in _pairs(looked)
            if not jury.accepts(number, digest)
        ]

    async def _told(self, number: int, digest: str, deadline_s: float) -> SampledResult:
        await self._template.say({"op": "tell", "number": number})
        told = await self._template.hear("told", SMALL_S + deadline_s)
        plain, untold = (str(told.get(name, "")) for name in ("plain", "untold"))
        return SampledResult(arm=self._template.arm, call=number, digest=digest, plain=plain, untold=untold)

    async def _done(self, deadline_s: float, cpu: int, queued_ns: int) -> dict[str, Any]:
        """Wait until the calls are done; for what an arm spends in line behind others' it is not blamed.

        Time in line behind threads of its own is: they are on its CPU clock.

        Raises:
            ArmWorkTimeout: they are not done in time.
        """
        began, left_s = time.monotonic(), deadline_s
        while left_s > GRAIN_S:
            try:
                return await self._template.hear("done", left_s)
            except ArmResponseTimeout:
                in_line_s = (self._witness.counts().queued_ns - queued_ns) / SECOND
                used_s = max(time.monotonic() - began - in_line_s, (self._cpu_ns() - cpu) / SECOND)
                left_s = deadline_s - used_s
        raise ArmWorkTimeout(f"its calls of one block were not done after {deadline_s:.1f} s")

    async def _checked(self, job: BlockRequest, deadline_s: float) -> str:
        """Have outcomes of the last block encoded, and return their digest."""
        await self._template.say({"op": "check", "lot": job.lot, "most": job.drawn})
        checked = await self._template.hear("checked", SMALL_S + deadline_s)
        self.said = str(checked.get("said", ""))
        self._kept = _number(checked, "inputs", 0)
        return str(checked.get("digest", ""))

    async def end(self) -> WorkerUsage:
        """End the unit and return what it had used.

        Raises:
            ArmFailure: it dies instead, or does not end.
        """
        own_ns, memory = self._cpu_ns(), self._witness.memory()
        await self._template.say({"op": "end"})
        reaped = await self._template.hear("reaped", SMALL_S)
        # `wait4` is exact, and its caller is the arm; the process table is the kernel's, and coarse.
        table_ns = reaped_children_ns(self._template.seat.pid) - self._reaped_before_ns - TABLE_GRAIN_NS
        wait4_ns = max(_number(reaped, "cpu_ns", 0), table_ns)
        return WorkerUsage(
            children_ns=max(0, wait4_ns - own_ns - self._commands_ns),
            peak_bytes=max(0, memory.peak - self._forked_bytes),
        )

    def _cpu_ns(self) -> int:
        try:
            return self._witness.cpu_ns()
        except ProcessEnded:
            raise ArmFailure("ended while it was timed") from None
