"""The user's judge for functions with several right answers: `accept(arguments, expected, actual)`.

It runs in processes of the baseline's code and the run's isolation level, and gets results that were rebuilt
from what their process told of them in plain JSON. It is asked about results that differ from the
baseline's; an answer is remembered by call and digest of the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import BaselineReplays, CallMeasurement, other_trace
from codeflash_parallel.check.comparison.difference_text import outcome_text
from codeflash_parallel.check.comparison.value_comparison import judged_calls
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import RunnerConfig, run_session
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace

#: Wall seconds that a process of the judge has, and more for each question: it bounds each answer itself.
START_S, ANSWER_S = 60.0, 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptQuestion:
    """A result that the judge is asked about.

    Attributes:
        call: number of the captured or derived call.
        digest: of the result.
        plain: the result as its process told it, a JSON text; empty: the baseline's own.
    """

    call: int
    digest: str
    plain: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptFunction:
    """Asks the judge.

    Attributes:
        place: ``path::name``, for people.
        given: `path`, `name` and `source`, the snapshot's text of that file.
        workspace: the baseline's.
        turn: on that workspace.
        known: why a result was not accepted, by call and digest; empty: it was.
    """

    place: str
    given: Mapping[str, str]
    runner: RunnerConfig
    workspace: Workspace
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    known: dict[tuple[int, str], str] = field(default_factory=dict)

    async def measured(
        self, baseline: Baseline, known: BaselineReplays, got: RunnerReport, again: Iterable[CallOutcome]
    ) -> dict[int, CallMeasurement]:
        """Return what the judge says of calls that returned something else than the baseline's.

        Args:
            baseline: holds the inputs.
            known: what the baseline's calls gave.
            got: the candidate's replay.
            again: calls of it made once more, with their results told: what counts is what they give now.
        """
        wanted = judged_calls(known, got)
        asked = [call for call in again if call.index in wanted and call.kind == "return"]
        others = [call for call in asked if call.digest != known.all[call.index].digest]
        await self.ask(
            baseline,
            [
                AcceptQuestion(call=call.index, digest=call.digest, plain=call.plain)
                for call in others
                if call.plain
            ],
        )
        found = {}
        for call in asked:
            why = self._objection(call) if call in others else ""
            code = Code.NOT_ACCEPTED if why else _left_code(known.all[call.index], call)
            found[call.index] = CallMeasurement(code=code, judge=self.place, why=why)
        return found

    async def ask(self, baseline: Baseline, questions: Iterable[AcceptQuestion]) -> None:
        """Have results judged about which nothing is known.

        Raises:
            UsageError: `BAD_JUDGE`, it cannot be loaded.
        """
        new = {(q.call, q.digest): q for q in questions if (q.call, q.digest) not in self.known}
        if not new:
            return
        cases = [_case(baseline, number, question) for number, question in enumerate(new.values())]
        files = {"inputs": baseline.inputs, "derived": baseline.derived_inputs}
        spec = self.runner.spec("accept", (), callable=dict(self.given), cases=cases, **files)
        limits = ProcessLimits(wall_s=START_S + ANSWER_S * len(cases))
        async with self.turn:
            session = await run_session(self.runner, self.workspace, spec, limits)
        report, keys = session.report, tuple(new)
        if report.error_where == "accept":
            raise UsageError("BAD_JUDGE", f"accept: {report.error}.")
        self.known.update({keys[number]: why for number, why in report.accepted.items()})
        if not report.finished and len(report.accepted) < len(keys):
            is_late = session.exit.ended is ExitKind.WALL_DEADLINE
            self.known[keys[len(report.accepted)]] = _NO_ANSWER if is_late else _ENDED

    def why_not(self, call: int, digest: str) -> str:
        """Return why a result is not accepted that was asked about; empty: it is."""
        return self.known.get((call, digest), _NO_ANSWER)

    async def settled(self, baseline: Baseline) -> Baseline:
        """Return a baseline with the derived calls whose own results are accepted.

        Calls inside the tests cannot be judged: they are not compared.

        Raises:
            UsageError: `BAD_JUDGE`: it does not accept what the baseline itself gives for a captured call.
        """
        returned = [call for call in baseline.known.all.values() if call.kind == "return"]
        await self.ask(
            baseline, [AcceptQuestion(call=call.index, digest=call.digest) for call in returned if call.plain]
        )
        unfit = {call.index: why for call in returned if (why := self._objection(call))}
        for index, call in baseline.calls.items():
            if index in unfit:
                raise _refused(self.place, baseline, call, unfit[index])
        unasked = () if baseline.calls else (f"{self.place} judges nothing: {_UNASKED}",)
        return replace(
            baseline,
            derived={index: call for index, call in baseline.derived.items() if index not in unfit},
            breaks={index: name for index, name in baseline.breaks.items() if index not in unfit},
            observed={},
            warnings=(*baseline.warnings, *unasked),
        )

    def _objection(self, call: CallOutcome) -> str:
        """Return why a result is not accepted; empty: it is."""
        if not call.plain:
            return f"it holds {call.untold}, which cannot be rebuilt in the judge's process"
        return self.why_not(call.index, call.digest)


_NO_ANSWER, _ENDED = "the judge gives no answer in time", "the judge ends its process"
_UNASKED = "no call of the targets can be made again outside its test; whole tests are compared."
_HINT = "It is called as accept(arguments, expected, actual), arguments by name, and returns True or False."
_KINDS = (
    "What can be rebuilt: builtins, numpy's arrays and scalars, decimals, fractions, enumerations, "
    "named tuples and dataclasses."
)


def _refused(place: str, baseline: Baseline, call: CallOutcome, why: str) -> UsageError:
    name = baseline.targets[call.target].rpartition("::")[2]
    what = f"what the baseline returns in call {call.index}, {name}({_short(call.args)}) in {call.test}"
    message = f"accept: {place} does not accept {what}, which is {_short(outcome_text(call))}: {why}."
    return UsageError("BAD_JUDGE", message, _HINT if call.plain else _KINDS)


def _left_code(expected: CallOutcome, call: CallOutcome) -> Code:
    """Return what else differs where the result is accepted."""
    if call.arguments != expected.arguments:
        return Code.INPUT_MUTATED
    return Code.STATE_DIFFERS if other_trace(expected.traces, call.traces) else Code.OK


def _case(baseline: Baseline, number: int, question: AcceptQuestion) -> Sequence[int | str]:
    call = question.call
    file = "derived" if call in baseline.derived else "inputs"
    return (number, file, call, baseline.known.all[call].plain, question.plain)


def _short(text: str, width: int = 100) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
