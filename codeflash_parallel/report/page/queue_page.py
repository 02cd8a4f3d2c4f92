"""Page of the queue: its health, who waits and why by submitter, what runs, and what has ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from codeflash_parallel.queue.jobs import FINAL, JobState
from codeflash_parallel.report.page.elements import Markup, element, page, pairs, paragraph, section, table
from codeflash_parallel.report.queue.queue_document import JOB_COLUMNS, JobView, job_row, seconds_words
from codeflash_parallel.result.safe_text import one_line

#: Jobs of one submitter that are named, and submitters.
_MOST_JOBS, _MOST_SUBMITTERS = 100, 50


def queue_page(views: Sequence[JobView], health: Iterable[tuple[str, str]]) -> str:
    """Return the page of the queue.

    Args:
        views: of jobs: those that run, those that wait in their order, those that have ended.
        health: names and figures of the whole queue.
    """
    waiting, running = ([v for v in views if v.job.state is s] for s in (JobState.QUEUED, JobState.RUNNING))
    ended = [view for view in views if view.job.state in FINAL]
    words = f"Waiting: {len(waiting):,}. Running: {len(running):,}. Ended, of those shown: {len(ended):,}."
    return page(
        "Evaluation queue - codeflash-parallel",
        "Evaluation queue",
        (
            element("p", {"class": "lead"}, words),
            section("health", "Health", pairs([(n, one_line(v, limit=400)) for n, v in health])),
            section("submitters", "By submitter", _submitters(views)),
            section("waiting", "Waiting", *_waiting(waiting)),
            section("running", "Running", _jobs("Jobs that run", running)),
            section("ended", "Ended", _jobs("Jobs that have ended, the latest first", ended)),
        ),
    )


def _by_submitter(views: Iterable[JobView]) -> dict[str, list[JobView]]:
    found: defaultdict[str, list[JobView]] = defaultdict(list)
    for view in views:
        found[view.job.submitter].append(view)
    return dict(list(found.items())[:_MOST_SUBMITTERS])


def _submitters(views: Sequence[JobView]) -> Markup:
    rows = []
    for name, own in sorted(_by_submitter(views).items()):
        states = Counter(view.job.state for view in own)
        waits = [view for view in own if view.job.state is JobState.QUEUED]
        reasons = Counter(view.place.reason.value for view in waits)
        why = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
        oldest = seconds_words(max(view.age_s for view in waits)) if waits else ""
        ended = sum(count for state, count in states.items() if state in FINAL)
        figures = (states[JobState.QUEUED], oldest, states[JobState.RUNNING], ended)
        rows.append((one_line(name, limit=80), *map(str, figures), element("td", {"class": "wide"}, why)))
    if not rows:
        return paragraph("There are no jobs.")
    header = ("submitter", "wait", "oldest", "run", "ended", "why they wait")
    return table("Jobs by submitter, and why they wait", header, rows, figures=range(1, 5))


def _waiting(views: Sequence[JobView]) -> Iterator[Markup]:
    for number, (name, own) in enumerate(_by_submitter(views).items(), 1):
        yield element("h3", None, one_line(name, limit=80))
        yield _jobs(f"Waiting {number}: {one_line(name, limit=80)}", own)


def _jobs(caption: str, views: Sequence[JobView]) -> Markup:
    if not views:
        return Markup()
    rows = [
        [one_line(cell, limit=120) for cell in job_row(view.job, view.place, view.age_s)]
        for view in views[:_MOST_JOBS]
    ]
    more = f"and {len(views) - _MOST_JOBS:,} more" if len(views) > _MOST_JOBS else ""
    header = [*JOB_COLUMNS[:-1], "what there is to say"]
    return Markup(table(caption, header, rows) + paragraph(more))
