"""Candidates that cannot apply, seen when they are handed in: a job of nothing else need not wait. Light."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.candidate.candidate_model import GitRef, PatchText, Submission
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.repository import Repository


class InapplicableJob(StrEnum):
    """What becomes of a job of which no candidate applies, as far as that is seen at once."""

    #: Its verdicts say so when its turn has come.
    TAKEN = "taken"
    #: It is refused, with their code.
    REFUSED = "refused"


def must_have_hope(
    repository: Repository,
    settings: Settings,
    submissions: Sequence[Submission],
    pinned: Sequence[Submission],
) -> None:
    """Refuse candidates of which none applies; the first that may ends the search.

    Args:
        pinned: the same, with the commit of every ref that names one.

    Raises:
        UsageError: `DOES_NOT_APPLY`.
    """
    reasons = _reasons(repository, settings, zip(submissions, pinned, strict=True))
    found = []
    for submission, why in reasons:
        if not why:
            return
        found.append(f"Candidate {submission.id}: {why}")
    rest = " The other candidates do not apply either." if len(found) > 1 else ""
    raise UsageError("DOES_NOT_APPLY", found[0] + rest, "Nothing was handed in.")


def _reasons(
    repository: Repository, settings: Settings, both: Iterator[tuple[Submission, Submission]]
) -> Iterator[tuple[Submission, str]]:
    for submission, pinned in both:
        match submission.content:
            case GitRef(ref=ref):
                is_known = pinned is not submission
                yield submission, "" if is_known else f"{ref!r} names no commit of the repository."
            case PatchText(patch=text):
                patch = text.encode("utf-8", "surrogateescape")
                yield submission, _why_not(repository, settings, patch)
            case _:
                yield submission, ""


def _why_not(repository: Repository, settings: Settings, patch: bytes) -> str:
    from codeflash_parallel.workspace.git.patch_applicability import why_no_patch, why_not_applicable

    is_the_disk = not (settings.base or settings.extra_tests or repository.is_bare)
    return why_no_patch(patch) or (why_not_applicable(repository, patch) if is_the_disk else "")
