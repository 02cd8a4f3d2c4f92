"""Whether what a test run says of itself can be believed: canaries, and the predicted exit status. Pure."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.outcome_comparison import DECISIVE
from codeflash_parallel.check.integrity.canaries import CanaryPlace, disbelief, failed_as_it_must
from codeflash_parallel.check.integrity.process_faults import ProcessFault
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.outcome_codes import Code

#: How pytest ends where a test has failed, as canaries do (``ExitCode.TESTS_FAILED``).
TESTS_FAILED = 1
#: How many helpers one warning names.
_NAMED = 5


def unbelievable(session: RunnerSession, baseline: Baseline) -> ProcessFault | None:
    """Return a rejection unless a run in which every test passed has ended as it must.

    Every canary has failed in its way, the exit status is the one that was predicted (with canaries that of
    the baseline's own run with them, which is 1 unless the project sees to another one), and the test runner
    is what it was.

    Args:
        session: a run to the end.
        baseline: what is known.
    """
    why = disbelief(session.canaries, session.canary_outcomes)
    if why:
        return ProcessFault(code=Code.RUNNER_TAMPERED, reason=why)
    predicted, status = _predicted(session, baseline), session.report.status
    if status not in predicted:
        named = " or ".join(map(str, sorted(predicted)))
        why = f"The test run ended with status {status}; {named} was predicted: it was tampered with."
    why = why or _replaced(session, baseline)
    return ProcessFault(code=Code.RUNNER_TAMPERED, reason=why) if why else None


def _replaced(session: RunnerSession, baseline: Baseline) -> str:
    """Return what a run has replaced of the test runner that the baseline leaves; empty if nothing."""
    more = sorted(session.report.replaced.difference(baseline.replaced))
    named = "; ".join(more[:_NAMED])
    return f"Code of the test runner was replaced: {named}." if more else ""


def _predicted(session: RunnerSession, baseline: Baseline) -> frozenset[int]:
    if session.canaries:
        return frozenset({baseline.status})
    # Tests of which nothing is known may fail.
    failed = any(test.outcome in DECISIVE for test in session.report.tests.values())
    return frozenset({TESTS_FAILED if failed else 0, baseline.plain_status})


def with_canaries(draft: Baseline, tried: RunnerSession) -> Baseline:
    """Add to the findings where canaries fail as they must, and say where none does.

    Args:
        draft: the findings so far.
        tried: a run of the selected tests with canaries in many places.
    """
    places = tuple(c.place for c in tried.canaries if failed_as_it_must(c, tried.canary_outcomes))
    status = tried.report.status if places else draft.status
    warnings = (*draft.warnings, *_warnings(places, status))
    replaced = tuple(sorted(tried.report.replaced.union(draft.replaced)))
    return replace(draft, places=places, status=status, warnings=warnings, replaced=replaced)


def _warnings(places: tuple[CanaryPlace, ...], status: int) -> tuple[str, ...]:
    if not places:
        return ("No test that must fail could be put among the tests: the test runner is believed as it is.",)
    odd = f"The tests end with status {status} though some fail: the exit status proves little here."
    return (odd,) if status != TESTS_FAILED else ()
