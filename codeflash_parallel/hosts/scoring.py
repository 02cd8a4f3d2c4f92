"""Fitness for evolution loops: the lower bound of a program's speedup, and 0 where it is not equivalent.

Theory of operation: a loop has whole files, not patches. Each program is the new text of one file of the
repository (or of several, by path); all programs of a call are candidates of one run, so a batch is one race.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts, Submission
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.result.safe_text import one_line

#: A program: the new text of the target's file, its path, or texts of several files by their paths.
Program = str | Path | Mapping[str, str]

#: Statuses of candidates that are equivalent to the baseline.
_EQUIVALENT = frozenset(
    {CandidateStatus.WON, CandidateStatus.TIED, CandidateStatus.LOST, CandidateStatus.UNDECIDED}
)
#: Statuses of candidates that were not judged.
_NOT_JUDGED = frozenset({CandidateStatus.INFRA, CandidateStatus.CANCELLED})
#: Codes of candidates that are faster, but not the winner: their gain counts, too.
_FASTER = frozenset({Code.OK, Code.BEATEN})
#: Fitness of a program that is equivalent, and of which no gain is known.
_EQUAL = 1.0
#: Lines of a profile, failing tests and characters of a message that feedback shows.
_LINES, _TESTS, _CHARACTERS = 8, 5, 600


class ScoreFormat(StrEnum):
    """Form in which a host reads a score."""

    #: Lines ``METRIC name=value`` on standard output.
    METRIC = "metric"
    #: OpenEvolve: a JSON object with `metrics` and `artifacts`.
    OPENEVOLVE = "openevolve"
    #: GEPA: a JSON object with `score` and `side_info`.
    GEPA = "gepa"
    #: ShinkaEvolve: `metrics.json` and `correct.json` in the folder of results.
    SHINKA = "shinka"
    #: Harbor: `reward.json` in the folder of results.
    HARBOR = "harbor"
    #: CORAL: a JSON object that `ScoreBundle.from_dict` reads.
    CORAL = "coral"
    #: evo: one JSON object with `score` and `tasks`, alone on standard output.
    EVO = "evo"

    @property
    def has_files(self) -> bool:
        """Whether the host reads files, and not standard output."""
        return self in {ScoreFormat.SHINKA, ScoreFormat.HARBOR}


@dataclass(frozen=True, kw_only=True, slots=True)
class Score:
    """The score of one program.

    Attributes:
        fitness: lower bound of the speedup (99 % by default); at most 1 where no gain is credited; 0 where it
            is not equivalent to the baseline.
        is_correct: it is equivalent to the baseline.
        estimate: of the speedup; `None`: it was not timed.
        code: why, as in the result document.
        feedback: for the author of the next program: first difference, failing tests, line profile.
        run_id: of the run; `codeflash-parallel show` tells more.
    """

    fitness: float
    is_correct: bool
    estimate: float | None
    code: str
    feedback: str
    run_id: str = ""


def score(
    programs: Sequence[Program],
    *,
    target: str,
    repository: Path | str = ".",
    settings: Settings | None = None,
) -> list[Score]:
    """Return the scores of programs, in their order; one run evaluates all of them.

    Args:
        programs: each is the new text of the target's file, its path, or texts of files by their paths.
        target: path of the file in the repository, e.g. ``"src/shop/cart.py"``.
        repository: a path inside the repository; it is only read.
        settings: of the run; by default those of the project's configuration and the environment.

    Raises:
        UsageError, EnvironmentFault: the run could not be made, or a program could not be judged.
        OSError, UnicodeDecodeError: the file of a program cannot be read.
    """
    from codeflash_parallel.run.evaluator import evaluate as evaluated

    submissions = submissions_of(programs, target)
    if settings is None:
        from codeflash_parallel.config.settings_reader import read_settings

        settings = read_settings(Path(repository), os.environ, {}).settings
    if not all(isinstance(program, Mapping) for program in programs):
        require_target(target, Path(repository), settings)
    return scores_of(evaluated(submissions, repository, settings))


def evaluate(
    program_path: str,
    *,
    target: str,
    repository: Path | str = ".",
    settings: Settings | None = None,
) -> Any:
    """Evaluate a program for OpenEvolve: ``evaluate = functools.partial(scoring.evaluate, target=...)``.

    Args:
        program_path: file that OpenEvolve has written.
        target: as in `score`, and so are the others.

    Returns:
        An `openevolve.evaluation_result.EvaluationResult`; without that package a dict of its metrics.

    Raises:
        UsageError, EnvironmentFault: as in `score`.
    """
    (one,) = score([Path(program_path)], target=target, repository=repository, settings=settings)
    try:
        from openevolve.evaluation_result import EvaluationResult
    except ImportError:
        return metrics_of(one)
    return EvaluationResult(metrics=metrics_of(one), artifacts={"feedback": one.feedback})


def batch_evaluate(
    pairs: Sequence[tuple[Any, Any]],
    *,
    target: str,
    repository: Path | str = ".",
    settings: Settings | None = None,
) -> list[tuple[float, dict[str, Any]]]:
    """Evaluate a batch for GEPA's `batch_evaluator`: one race for all of it.

    Args:
        pairs: of a candidate (a text, or texts by path) and an example, which is not looked at.
        target: as in `score`, and so are the others.

    Returns:
        For each pair its fitness and side information.

    Raises:
        UsageError, EnvironmentFault: as in `score`.
    """
    programs = [candidate for candidate, _ in pairs]
    found = score(programs, target=target, repository=repository, settings=settings)
    return [(one.fitness, side_information(one)) for one in found]


def require_target(target: str, repository: Path, settings: Settings) -> None:
    """Check that the target is a file of the repository: a new file would be used by nothing.

    Raises:
        UsageError: `NO_SUCH_TARGET`, or `NOT_A_REPOSITORY`.
    """
    from codeflash_parallel.workspace.git.git_client import find_repository

    found = find_repository(repository)
    is_on_disk = not (settings.base or found.is_bare)
    if is_on_disk and not (found.root / target).is_file():
        hint = "Give its path in the repository, e.g. src/shop/cart.py."
        raise UsageError("NO_SUCH_TARGET", f"There is no file {target} in {found.root}.", hint)


def submissions_of(programs: Sequence[Program], target: str) -> list[Submission]:
    """Return programs as candidates, named by their numbers.

    Raises:
        OSError, UnicodeDecodeError: the file of a program cannot be read.
    """
    return [
        Submission(id=CandidateId(f"program-{number}"), content=_content(program, target))
        for number, program in enumerate(programs, start=1)
    ]


def _content(program: Program, target: str) -> FileTexts:
    match program:
        case Mapping():
            texts = dict(program)
        case Path():
            texts = {target: program.read_text(encoding="utf-8")}
        case _:
            texts = {target: program}
    return FileTexts(files=tuple(FileText(path=path, text=text) for path, text in texts.items()))


def scores_of(result: RunResult) -> list[Score]:
    """Return the scores of a run's submitted candidates, in their order.

    Raises:
        EnvironmentFault: `NOT_JUDGED`, the machinery failed or was stopped: that is no verdict on a program.
    """
    submitted = [one for one in result.candidates if one.parent is None]
    lost = next((one for one in submitted if _original(one, result).status in _NOT_JUDGED), None)
    if lost is not None or not result.complete:
        why = result.error.message if result.error else lost.reason if lost else result.summary
        raise EnvironmentFault("NOT_JUDGED", f"There is no score: {one_line(why) or 'the run was stopped'}")
    return [_score(one, result) for one in submitted]


def _original(candidate: CandidateResult, result: RunResult) -> CandidateResult:
    """Return the candidate that one repeats; one that repeats the baseline, or none, is its own."""
    found = result.candidate(candidate.duplicate_of) if candidate.duplicate_of else None
    return candidate if found is None or found.id == candidate.id else _original(found, result)


def _score(candidate: CandidateResult, result: RunResult) -> Score:
    same = _original(candidate, result)
    is_correct = same.status in _EQUIVALENT or same.duplicate_of == "baseline"
    return Score(
        fitness=_fitness(same) if is_correct else 0.0,
        is_correct=is_correct,
        estimate=same.speedup.estimate if same.speedup else None,
        code=candidate.code,
        feedback=_feedback(same, result),
        run_id=result.run_id,
    )


def _fitness(candidate: CandidateResult) -> float:
    """Return the lower bound; what is not credited as a gain is none."""
    low = candidate.speedup.low if candidate.speedup else _EQUAL
    return low if candidate.code in _FASTER else min(low, _EQUAL)


def _feedback(candidate: CandidateResult, result: RunResult) -> str:
    lines = [f"{candidate.status} {candidate.code}: {one_line(candidate.reason)}"]
    if difference := candidate.difference:
        lines += [
            f"{difference.target} gives another value in a call of {difference.test}:",
            f"  inputs:   {_short(difference.smaller_inputs or difference.inputs)}",
            f"  expected: {_short(difference.smaller_expected or difference.expected)}",
            f"  got:      {_short(difference.smaller_got or difference.got)}",
        ]
    lines += [f"{one.id} fails: {_short(one.message)}" for one in candidate.failures[:_TESTS]]
    if candidate.id == result.winner and (profile := result.winner_profile):
        lines.append("Its slowest lines:")
        slowest = sorted(profile.lines, key=lambda line: -line.time_ns)[:_LINES]
        total = sum(line.time_ns for line in profile.lines) or 1
        lines += [f"  {line.time_ns / total:4.0%} {line.line}: {_short(line.text)}" for line in slowest]
    return "\n".join(lines)


def _short(text: str) -> str:
    return one_line(text, limit=_CHARACTERS)


def metrics_of(one: Score) -> dict[str, float]:
    """Return a score as figures by name; `combined_score` is the fitness."""
    figures = {"combined_score": one.fitness, "correct": float(one.is_correct)}
    return figures | ({} if one.estimate is None else {"speedup": one.estimate})


def side_information(one: Score) -> dict[str, Any]:
    """Return what a score says besides its fitness, JSON values."""
    return {"correct": one.is_correct, "code": one.code, "speedup": one.estimate, "feedback": one.feedback}


def texts_of(one: Score, form: ScoreFormat) -> dict[str, str]:
    """Return a score in a host's form: texts of files by their names; ``-`` is standard output."""
    printed: Any
    match form:
        case ScoreFormat.METRIC:
            lines = (f"METRIC {name}={value:.6g}\n" for name, value in metrics_of(one).items())
            return {"-": "".join(lines)}
        case ScoreFormat.SHINKA | ScoreFormat.HARBOR:
            return {name: _json(content) for name, content in _files_of(one, form).items()}
        case ScoreFormat.OPENEVOLVE:
            printed = {"metrics": metrics_of(one), "artifacts": {"feedback": one.feedback}}
        case ScoreFormat.GEPA:
            printed = {"score": one.fitness, "side_info": side_information(one)}
        case ScoreFormat.CORAL:
            about = {"correct": one.is_correct, "code": one.code, "speedup": one.estimate}
            speedup = {
                "value": one.fitness,
                "name": "speedup",
                "explanation": one.feedback,
                "metadata": about,
            }
            printed = {"scores": {"speedup": speedup}, "aggregated": one.fitness, "feedback": one.feedback}
        case ScoreFormat.EVO:
            tasks = {"correct": float(one.is_correct)}
            printed = {"score": one.fitness, "tasks": tasks, "feedback": one.feedback}
    return {"-": _json(printed)}


def _files_of(one: Score, form: ScoreFormat) -> dict[str, Any]:
    """Return the contents of the files of a host that reads files, JSON values."""
    if form is ScoreFormat.HARBOR:
        return {"reward.json": {"reward": one.fitness, "correct": float(one.is_correct)}}
    public = {"speedup": one.estimate, "code": one.code}
    metrics = {"combined_score": one.fitness, "public": public, "private": {}, "text_feedback": one.feedback}
    correct = {"correct": one.is_correct, "error": "" if one.is_correct else one.feedback}
    return {"metrics.json": metrics, "correct.json": correct}


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
