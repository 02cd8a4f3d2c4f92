"""One candidate that the machine seems to fail, again and again, beside others in the same job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_support import LONG_S, TARGET, Place, codes, project_place
from harness import worktrees_left
from projects import FAST_TOTAL

from codeflash_parallel import JobKind, Replacement, Settings, Submission, job_request
from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.result.candidate_model import CandidateId

pytestmark = [pytest.mark.slow, pytest.mark.witness]

#: Tells on every descriptor that the kernel refused the runner something, and ends as a runner then does.
_SAYS_REFUSED = """
def total(values):
    import json, os
    told = json.dumps({"t": "error", "where": "runner", "message": "[Errno 24] Too many open files"}) + "\\n"
    for number in range(3, 256):
        try:
            os.write(number, told.encode())
        except OSError:
            pass
    os._exit(70)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with project_place(tmp_path, monkeypatch) as made:
        yield made
    assert worktrees_left(made.cache) == []


def test_the_others_have_their_verdicts(place: Place) -> None:
    place.start(max_attempts=2)
    texts = {"refused": _SAYS_REFUSED, "right": FAST_TOTAL}
    submissions = [Submission(id=CandidateId(n), content=Replacement(code=t)) for n, t in texts.items()]
    settings = Settings(functions=(TARGET,), cache_dir=str(place.cache))
    with place.client() as client:
        request = job_request(JobKind.CHECK, place.project, submissions, settings, submitter="me")
        job = client.wait(client.submit(request).job_id, LONG_S)
        assert (job.state, job.machinery_faults) == (JobState.DONE, 1)
    (result,) = place.results().values()
    assert codes(result["result"]) == {"refused": "INFRA_SLOT", "right": "NOT_RACED"}
