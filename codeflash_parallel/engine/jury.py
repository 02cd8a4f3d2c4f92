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
        if expected is None:
            return False
        return digest == expected.digest or not self.judge.why_not(expected.index, digest)

    async def refused(self, results: Sequence[Result], /) -> Mapping[str, str]:
        """Return the arms of which a result is not accepted, and why, one clause each.

        Raises:
            UsageError: `BAD_JUDGE`.
        """
        await self.judge.ask(self.baseline, filter(None, map(self._question, results)))
        found = {result.arm: why for result in reversed(results) if (why := self._objection(result))}
        return {
            arm: f"a timed call gives a result that {self.judge.place} {why}" for arm, why in found.items()
        }

    def _question(self, result: Result) -> Question | None:
        expected = self.baseline.expected_call(result.call)
        if expected is None or not result.plain:
            return None
        return Question(call=expected.index, digest=result.digest, plain=result.plain)

    def _objection(self, result: Result) -> str:
        """Return why a result is not accepted; empty: it is."""
        expected = self.baseline.expected_call(result.call)
        if expected is None or not result.plain:
            return f"cannot be given: it holds {result.untold or 'nothing'}"
        why = self.judge.why_not(expected.index, result.digest)
        return why and f"does not accept ({expected.test}): {why}"


def jury_of(context: RunContext) -> RaceJury | None:
    """Return the jury of a run's races, where the user has named a judge."""
    judge = context.plan.judge
    return None if judge is None else RaceJury(judge=judge, baseline=context.baseline)
