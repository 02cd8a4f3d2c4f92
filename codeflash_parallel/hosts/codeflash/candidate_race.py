"""The optimizer of a function whose candidates are raced: a subclass of codeflash's, made at run time.

Theory of operation: codeflash's loop gives each candidate to `process_single_candidate` and asks
`select_best_optimization` for the best one at its end. Here the first only notes what the candidate makes of
the files, as codeflash itself writes them; the second hands all of them to one run of ours. Requests for
candidates, duplicates and everything after the choice stay codeflash's. It measures the winner once more
itself: the figures in its reports are its own. Repairs and refinements are asked for between two candidates
of its own evaluation; there is no such moment here, and they are not asked for.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.hosts.codeflash.race_log import FunctionRace, RaceLog
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts, Submission
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.result.safe_text import one_line

#: Folder of codeflash's generated tests in the slots.
_GENERATED = "codeflash_generated_tests"
#: Statuses of candidates that do not do what the original does.
_WRONG = frozenset({CandidateStatus.REJECTED, CandidateStatus.UNAPPLIABLE})


@dataclass(frozen=True, kw_only=True, slots=True)
class NotedCandidate:
    """A candidate, and what codeflash gave with it.

    Attributes:
        texts: by path, of the files that it changes.
        given: arguments of `process_single_candidate`.
    """

    id: str
    texts: Mapping[Path, str]
    given: Mapping[str, Any]

    @property
    def candidate(self) -> Any:
        """Return codeflash's candidate."""
        return self.given["candidate_node"].candidate


def racing_class(base: type[Any], given: Mapping[str, Any], log: RaceLog) -> type[Any]:
    """Return a class of optimizers that race their candidates.

    Args:
        base: codeflash's class.
        given: settings of the command line, by name.
        log: takes what comes of it.
    """

    class RacingOptimizer(base):  # type: ignore[misc]
        _noted: list[NotedCandidate] | None = None

        def determine_best_candidate(self, **rest: Any) -> Any:
            try:
                self._noted = []
                return super().determine_best_candidate(**rest)
            except CodeflashParallelError as error:
                say(f"{error} codeflash evaluates the candidates itself.")
                log.note_race(FunctionRace(function=_name(self), summary=str(error)))
            finally:
                self._noted = None
            return super().determine_best_candidate(**rest)

        def process_single_candidate(self, **rest: Any) -> Any:
            if self._noted is None:
                return super().process_single_candidate(**rest)
            name = f"candidate-{rest['candidate_index']}"
            if texts := _texts(self, rest):
                self._noted.append(NotedCandidate(id=name, texts=texts, given=rest))
            return None

        def repair_if_possible(self, *args: Any, **rest: Any) -> None:
            if self._noted is None:
                super().repair_if_possible(*args, **rest)

        def select_best_optimization(self, **rest: Any) -> Any:
            if self._noted is None:
                return super().select_best_optimization(**rest)
            return _best(self, self._noted, rest["eval_ctx"], given, log) if self._noted else None

    return RacingOptimizer


def say(text: str) -> None:
    """Print a line for people on standard error."""
    sys.stderr.write(f"codeflash-parallel: {one_line(text)}\n")
    sys.stderr.flush()


def _name(optimizer: Any) -> str:
    function = optimizer.function_to_optimize
    return f"{os.path.relpath(function.file_path, optimizer.project_root)}::{function.qualified_name}"


def _texts(optimizer: Any, given: Mapping[str, Any]) -> dict[Path, str]:
    """Return the files that a candidate changes, as codeflash writes them; its loop restores them."""
    function = optimizer.function_to_optimize
    originals = {
        **given["original_helper_code"],
        function.file_path: optimizer.function_to_optimize_source_code,
    }
    why = "it changes nothing"
    try:
        optimizer.replace_function_and_helpers_with_optimized_code(
            code_context=given["code_context"],
            optimized_code=given["candidate_node"].candidate.source_code,
            original_helper_code=given["original_helper_code"],
        )
    except Exception as error:  # noqa: BLE001 - whatever its parsers make of a model's code
        why, written = str(error), {}
    else:
        written = {path: path.read_text(encoding="utf-8") for path in originals}
    texts = {path: text for path, text in written.items() if text != originals[path]}
    if not texts:
        say(f"Candidate {given['candidate_index']} is left out: {why}")
    return texts


def _best(
    optimizer: Any, noted: Sequence[NotedCandidate], context: Any, given: Mapping[str, Any], log: RaceLog
) -> Any:
    """Race candidates; return the winner in codeflash's own type, `None`: there is none.

    Args:
        context: codeflash's entries about candidates, which it sends to its service.

    Raises:
        UsageError, EnvironmentFault: there is no verdict.
    """
    began = time.monotonic()
    say(f"{_name(optimizer)}: one run with {len(noted)} of its candidates…")
    with _generated_tests(optimizer, noted[0].given["original_code_baseline"]) as folder:
        result = evaluate_noted(optimizer, noted, {**given, "extra_tests": folder})
    seconds = time.monotonic() - began
    if result.error is not None or not result.complete:
        raise EnvironmentFault("NOT_JUDGED", result.error.message if result.error else result.summary)
    say(f"{_name(optimizer)}: {result.summary}")
    for one in noted:
        found = result.candidate(one.id)
        if found is not None and found.status in _WRONG:
            context.record_failed_candidate(one.candidate.optimization_id)
    winner = next((one for one in noted if one.id == result.winner), None)
    best = _measured(optimizer, winner, context) if winner else None
    log.note_race(
        FunctionRace(
            function=_name(optimizer),
            run_id=result.run_id,
            winner=winner.id if winner and best else "",
            summary=result.summary,
            seconds=round(seconds, 1),
        )
    )
    return best


def evaluate_noted(optimizer: Any, noted: Sequence[NotedCandidate], given: Mapping[str, Any]) -> RunResult:
    """Evaluate candidates of a function in one run, with the tests that codeflash has for it.

    Raises:
        UsageError, EnvironmentFault: the run could not be made.
    """
    from codeflash_parallel.run.evaluator import evaluate
    from codeflash_parallel.workspace.git.git_client import find_repository

    project = Path(optimizer.project_root)
    root = find_repository(project).root
    function = optimizer.function_to_optimize
    existing = [file.original_file_path for file in optimizer.test_files if file.original_file_path]
    settings = read_settings(
        project,
        os.environ,
        {
            **given,
            "base": "",
            "functions": (f"{os.path.relpath(function.file_path, root)}::{function.qualified_name}",),
            # The tree also holds tests that codeflash has rewritten: those are for its own runs only.
            "tests": tuple(os.path.relpath(path, project) for path in existing) or (_GENERATED,),
        },
    ).settings
    submissions = [
        Submission(
            id=CandidateId(one.id),
            content=FileTexts(
                files=tuple(
                    FileText(path=os.path.relpath(path, root), text=text) for path, text in one.texts.items()
                )
            ),
            explanation=one.candidate.explanation,
        )
        for one in noted
    ]
    return evaluate(submissions, project, replace(settings, python=settings.python or sys.executable))


@contextmanager
def _generated_tests(optimizer: Any, baseline: Any) -> Iterator[str]:
    """Write the tests that codeflash has generated into a folder, without those that the original fails."""
    failed = {
        (result.file_name.name, ".".join(filter(None, (result.id.test_class_name, _plain(result.id)))))
        for result in baseline.behavior_test_results
        if not result.did_pass
    }
    with tempfile.TemporaryDirectory(prefix="codeflash-parallel-") as scratch:
        folder = Path(scratch, _GENERATED)
        folder.mkdir()
        for file in optimizer.test_files:
            name = file.instrumented_behavior_file_path.name
            if file.original_file_path is None and file.original_source:
                dropped = "".join(f"del {test}\n" for where, test in sorted(failed) if where == name)
                (folder / name).write_text(f"{file.original_source}\n{dropped}", encoding="utf-8")
        yield str(folder)


def _plain(test: Any) -> str:
    return (test.test_function_name or "").partition("[")[0]


def _measured(optimizer: Any, one: NotedCandidate, context: Any) -> Any:
    """Let codeflash test and time the winner in its way; return its own record of the best optimization.

    `None`: its comparison of values refuses the winner.
    """
    given = one.given
    shared = {name: given[name] for name in ("original_helper_code", "eval_ctx", "code_context")}
    baseline, number = given["original_code_baseline"], given["candidate_index"]
    try:
        _texts(optimizer, given)
        outcome = optimizer.run_optimized_candidate(
            optimization_candidate_index=number,
            baseline_results=baseline,
            file_path_to_helper_classes=given["file_path_to_helper_classes"],
            candidate=one.candidate,
            exp_type=given["exp_type"],
            **shared,
        )
        if not outcome.is_successful():
            say(f"{one.id} is refused by codeflash's own tests: there is no winner.")
            context.record_failed_candidate(one.candidate.optimization_id)
            return None
        measured = outcome.unwrap()
        best, _ = optimizer.handle_successful_candidate(
            candidate=one.candidate,
            candidate_result=measured,
            original_code_baseline=baseline,
            candidate_index=number,
            **shared,
        )
    finally:
        optimizer.write_code_and_helpers(
            optimizer.function_to_optimize_source_code,
            given["original_helper_code"],
            optimizer.function_to_optimize.file_path,
        )
    gain = baseline.runtime / max(measured.best_test_runtime, 1) - 1
    context.record_successful_candidate(one.candidate.optimization_id, measured.best_test_runtime, gain)
    return best
