"""Errors of the queue: complete texts, and figures for documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.queue import queue_errors as errors
from codeflash_parallel.queue.queue_errors import queue_unfit
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

FIGURES = {
    "limit": 3,
    "submitter": "ada",
    "retry_after_s": 2.5,
    "run": "night",
    "figure": "cpu_s",
    "spent": 61.0,
    "kind": "bake",
    "job_id": "1-a",
    "names": "DB_URL",
    "fence": 2,
    "version": 9,
    "name": "nfs",
    "why": "torn",
    "waited_s": 12.0,
    "folder": Path("/q"),
    "path": Path("/q/queue.sqlite3"),
}
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and "CODE" in vars(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.CODE)
def test_every_error_has_its_text_and_its_figures(kind) -> None:
    error = kind(**FIGURES)
    assert isinstance(error, UsageError | EnvironmentFault)
    assert error.code == kind.CODE
    assert "{" not in error.message + error.hint
    assert vars(error).keys() == {"code", "message", "hint", *kind.FIGURES}


def test_a_folder_that_can_be_no_queue_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "queue"
    with pytest.raises(NotADirectoryError) as caught:
        below.mkdir()
    assert queue_unfit(below, caught.value).why == f"{tmp_path / 'file'} is not a folder"
    (tmp_path / "link").symlink_to("nowhere")
    error = queue_unfit(tmp_path / "link", OSError(2, "No such file", str(tmp_path / "link")))
    assert error.why == f"{tmp_path / 'link'} is a link that leads nowhere"
