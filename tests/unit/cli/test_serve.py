"""The words of `serve` once it takes jobs; the daemon itself has its own tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeflash_parallel.cli.main import main
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.serve import _tell_ready
from codeflash_parallel.queue.daemon_protocol import DaemonInfo

INFO = DaemonInfo(pid=7, version="1", slots=2, slots_busy=0)


@pytest.mark.parametrize("form", Format)
def test_serve_says_when_it_is_ready(form: Format, capsys) -> None:
    _tell_ready(Path("/cache/queue"), INFO, Output(form))
    captured = capsys.readouterr()
    assert captured.err.startswith("Serving /cache/queue, 2 jobs at once. ")
    told = {"queue": "/cache/queue", "pid": 7, "slots": 2}
    assert json.loads(captured.out or "null") == (None if form.is_text else told)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program x", "there is no program 'no-such-program'"),
        ("a 'b", "No closing quotation"),
        ("/tmp", "'/tmp'"),
    ],
)
def test_a_command_that_cannot_run_is_refused_before_anything_starts(
    command: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--queue-dir", str(tmp_path / "queue"), "--on-end", command]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "queue").exists()
