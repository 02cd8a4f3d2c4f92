"""The user's judge in a race: asked about results of timed calls, one call for all with equal inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.accept_function import AcceptFunction, AcceptQuestion
from codeflash_parallel.race.worker.arm_worker import SampledResult
from codeflash_parallel.run.state.run_context import RunContext


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceJury:
    """Judges by what is known of a baseline (`benchmark.jury.Jury`)."""

    judge: AcceptFunction
    baseline: Baseline

    def accepts(self, call: int, digest: str, /) -> bool:
        """Say whether a result was accepted before, or is the baseline's."""
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


def jury_of(context: RunContext) -> RaceJury | None:
    """Return the jury of a run's races, where the user has named a judge."""
    judge = context.plan.judge
    return None if judge is None else RaceJury(judge=judge, baseline=context.baseline)
