"""The user's judge in a race: asked about results of timed calls, one call for all with equal inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codeflash_parallel.behavior.acceptance import Judge, Question
from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.benchmark.jury import Result
from codeflash_parallel.engine.context import RunContext


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceJury:
    """Judges by what is known of a baseline (`benchmark.jury.Jury`)."""

    judge: Judge
    baseline: Baseline

    def accepts(self, call: int, digest: str, /) -> bool:
        """Say whether a result was accepted before, or is the baseline's."""
        expected = self.baseline.expected_call(call)
        return digest == expected.digest or not self.judge.why_not(expected.index, digest)

    async def refused(self, results: Sequence[Result], /) -> Mapping[str, str]:
        """Return the arms of which a result is not accepted, and why, one clause each.

        Raises:
            UsageError: `BAD_JUDGE`.
        """
        await self.judge.ask(self.baseline, [self._question(result) for result in results if result.plain])
        refused: dict[str, str] = {}
        for result in results:
            if why := self._objection(result):
                test = self.baseline.expected_call(result.call).test
                what = f"a timed call (of {test}) gives a result that {self.judge.place} does not accept"
                refused.setdefault(result.arm, f"{what}: {why}")
        return refused

    def _question(self, result: Result) -> Question:
        call = self.baseline.expected_call(result.call).index
        return Question(call=call, digest=result.digest, plain=result.plain)

    def _objection(self, result: Result) -> str:
        if not result.plain:
            return f"it holds {result.untold}, which cannot be rebuilt in the judge's process"
        return self.judge.why_not(self.baseline.expected_call(result.call).index, result.digest)


def jury_of(context: RunContext) -> RaceJury | None:
    """Return the jury of a run's races, where the user has named a judge."""
    judge = context.plan.judge
    return None if judge is None else RaceJury(judge=judge, baseline=context.baseline)
