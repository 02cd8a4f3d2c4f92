"""Validate runs of the baseline; raise `EnvironmentFault` with a hint where one cannot be the reference."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codeflash_parallel.candidates.functions import force_failure
from codeflash_parallel.candidates.source_text import SourceText
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.integrity.process_faults import machinery_fault
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.runner_session import RunnerConfig, RunnerSession
from codeflash_parallel.config.environment import mentioned
from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import Code, ExitKind

#: How many test ids one message names.
_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingPrerequisite:
    """Files and variables of the user that tests do not find in a slot.

    Attributes:
        ignored: git-ignored files that the snapshot lacks.
        withheld: names of variables that were not passed on.
    """

    ignored: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()

    def hint(self, said: str, otherwise: str) -> str:
        """Return what to do about a baseline that fails.

        Args:
            said: what its tests, or pytest, said of it.
            otherwise: the hint where nothing that is absent is spoken of.
        """
        files = [path for path in self.ignored if Path(path).name in said or Path(path).stem in said]
        if names := mentioned(self.withheld, said):
            flags = " ".join(f"--pass-env {name}" for name in names[:_NAMED])
            return f"It mentions {', '.join(names[:_NAMED])}, withheld from your environment: {flags}."
        if files:
            where = "which git ignores and the snapshot lacks"
            return f"It mentions {files[0]}, {where}: --include-ignored {files[0]}."
        more = " Few of your variables are passed on; --pass-env NAME adds one." if self.withheld else ""
        return f"{otherwise}{more}"


def must_have_ended(session: RunnerSession, step: str, first_ns: int = 0) -> None:
    """Raise if a run of the baseline met its deadline, and name the test that it was in.

    Args:
        session: the run.
        step: what was done.
        first_ns: wall time of the first run, from which the deadline was taken; 0: this is the first.
    """
    if session.exit.ended is not ExitKind.WALL_DEADLINE:
        return
    report = session.report
    test = next((test for test in report.collected if test not in report.tests), "")
    where = f"it hung in {test}" if test else "it hung before the first test or after the last one"
    first = f" (the first run took {first_ns / 1e9:.1f} s)" if first_ns else ""
    raise EnvironmentFault(
        "BASELINE_TIMEOUT",
        f"The {step} did not end within {session.exit.wall_ns / 1e9:.0f} s{first}: {where}.",
        "Leave that test out with --tests, -k or -m, or name other tests.",
    )


def must_have_run(session: RunnerSession, absent: MissingPrerequisite) -> None:
    """Raise unless a run of the baseline came to its end and ran tests.

    Args:
        session: the run.
        absent: for a hint.
    """
    report, done = session.report, session.exit
    said = f"{done.stderr}\n{done.stdout}"
    errors = [line for line in said.splitlines() if line.startswith("ERROR")]
    words = (" ".join(errors) or done.stderr.strip() or done.stdout.strip())[-600:]
    if report.error_where == "pytest":
        raise EnvironmentFault(
            "NO_PYTEST",
            f"The project's interpreter cannot import pytest: {report.error}",
            "Install pytest there, or name another interpreter with --python.",
        )
    fault = machinery_fault(session)
    if fault is not None and fault.code is not Code.OK:
        raise EnvironmentFault(
            "BASELINE_CRASHED",
            f"The baseline's tests could not be run. {fault.reason}",
            absent.hint(said, words),
        )
    broken = [t for t in report.tests.values() if t.phase == "collect"]
    if broken:
        raise red_baseline([t.id for t in broken], report, absent)
    if not report.collected:
        raise EnvironmentFault(
            "NO_TESTS",
            f"pytest found no tests (exit status {report.status}). {words}".strip(),
            absent.hint(said, "Name them with --tests, -k or -m."),
        )


def red_baseline(tests: Sequence[str], report: RunnerReport, absent: MissingPrerequisite) -> EnvironmentFault:
    """Return the fault of a baseline in which some tests fail."""
    named = ", ".join(tests[:_NAMED]) + (f" and {len(tests) - _NAMED} more" if len(tests) > _NAMED else "")
    messages = [report.tests[t].message for t in tests if t in report.tests and report.tests[t].message]
    last = messages[0].strip().splitlines()[-1][:300] if "".join(messages[:1]).strip() else ""
    hint = absent.hint("\n".join(messages), "Mend them, or leave them out with --tests, -k or -m.")
    return EnvironmentFault("RED_BASELINE", f"The baseline is red: {named} fails. {last}".strip(), hint)


def must_be_ours(report: RunnerReport, sources: Mapping[str, bytes], needed: Collection[str] = ()) -> None:
    """Raise unless the code that ran is the snapshot's.

    Args:
        report: of a run of the snapshot.
        sources: its text of each target file.
        needed: paths of those that candidates are rejected for not having imported in such a run.
    """
    if report.outside:
        module, path = report.outside[0]
        raise EnvironmentFault(
            "WRONG_SOURCE",
            f"The tests import {module} from {path}, which is not part of the snapshot.",
            "If git ignores it, name it with --include-ignored; else look how the package is installed.",
        )
    for path, text in sources.items():
        loaded = report.sources.get(path, frozenset())
        if loaded - {digest_of(text)}:
            raise EnvironmentFault("WRONG_SOURCE", f"The {path} that ran is not the snapshot's.")
        if not loaded and path in needed:
            raise EnvironmentFault(
                "WRONG_SOURCE",
                f"Calls of {path} can be made again, but which code runs then cannot be proven.",
            )


def forced_edits(guest: RunnerConfig, sources: Mapping[str, bytes]) -> tuple[Edit, ...]:
    """Return edits that make every target raise; a file keeps its encoding and its line endings.

    Raises:
        EnvironmentFault: `BAD_SOURCE`, a file is not in the encoding that it names.
    """
    edits = []
    for path in sorted({target.path for target in guest.targets}):
        names = (target.qualname for target in guest.targets if target.path == path)
        source = _readable(path, sources[path])
        new = source.write(force_failure(source.text, *names))
        edits.append(Edit(path=path, old_digest=digest_of(sources[path]), new=new))
    return tuple(edits)


def _readable(path: str, data: bytes) -> SourceText:
    try:
        return SourceText.read(data)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise EnvironmentFault(
            "BAD_SOURCE", f"{path} is not in the encoding that it names: {error}.", "Mend its coding line."
        ) from error


def must_be_forced(report: RunnerReport, edits: Sequence[Edit]) -> None:
    """Raise unless what ran was what was staged."""
    for edit in edits:
        if report.sources.get(edit.path, frozenset()) - {digest_of(edit.new or b"")}:
            raise EnvironmentFault(
                "WRONG_SOURCE", f"A staged change of {edit.path} did not reach the tests: other code ran."
            )


def unnoticed(draft: Baseline) -> Baseline:
    """Return what is known, with a warning that no test notices when the targets raise.

    Raises:
        EnvironmentFault: `FAILURE_NOT_SEEN`, there are no calls to be compared either.
    """
    names = ", ".join(draft.targets)
    if not draft.calls and not draft.observed:
        raise EnvironmentFault(
            "FAILURE_NOT_SEEN",
            f"No test notices when {names} raises, and none of its calls could be captured.",
            f"{draft.left_out} Name tests that check it with --tests, or --extra-tests.".lstrip(),
        )
    warning = f"No test notices when {names} raises: only the values of captured calls protect it."
    return replace(draft, warnings=(*draft.warnings, warning))
