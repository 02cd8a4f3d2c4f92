"""The page on sharing one machine is typed in as it stands: its commands work, and print what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from harness import ROOT, Place, assert_nothing_left
from queue_support import with_queue

from codeflash_parallel.queue.queue_settings import read_queue_settings

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "how-to" / "share_one_machine.md").read_text(encoding="utf-8")
#: Language and text of every block, in their order.
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
JOB = re.compile(r"\d+-[0-9a-f]{8}")
#: A race of these candidates decides nothing here; the page says nothing of how long one may take.
SHORT = {"CODEFLASH_PARALLEL_TIME_BUDGET": "1"}


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Somebody who types in what the page says, with the project's files around."""

    place: Place
    environment: dict[str, str]

    def types(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", text],
            cwd=self.place.repository,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )


@pytest.fixture(scope="module")
def reader(build_once: Callable[[str], Place], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Give a reader who has done what the page says first: the rules stand in the file, the daemon is started."""
    place = _own(build_once("import_error"), tmp_path_factory.mktemp("page"))
    reader = Reader(place=place, environment=_environment(place))
    (place.repository / "right.py").write_bytes((place.state / "right.py").read_bytes())
    (rules,) = blocks("toml")
    with (place.repository / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{rules}")
    serve = shlex.split(blocks("sh")[0])
    daemon = subprocess.Popen(serve, cwd=place.repository, env=reader.environment, stderr=subprocess.PIPE)
    try:
        assert daemon.stderr is not None
        assert b"2 jobs at once" in daemon.stderr.readline()
        yield reader
    finally:
        daemon.send_signal(signal.SIGTERM)
        said = daemon.communicate(timeout=100)[1]
    assert daemon.returncode == 0, said
    assert_nothing_left(place)


def _own(shared: Place, folder: Path) -> Place:
    """Return a copy, which may be changed: what `build_once` makes is for all tests of a process."""
    (folder / "state").mkdir()
    repository = shutil.copytree(shared.repository, folder / "repository", symlinks=True)
    place = replace(shared, repository=repository, cwd=repository, state=folder / "state")
    return with_queue(place, folder / "cache")


def _environment(place: Place) -> dict[str, str]:
    program = place.state / "bin" / "codeflash-parallel"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m codeflash_parallel "$@"\n', encoding="utf-8"
    )
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{place.environment['PATH']}"
    own = {"PATH": path, "CODEFLASH_PARALLEL_CACHE_DIR": str(place.cache)}
    return {**place.environment, **own, **SHORT}


@pytest.mark.witness
def test_what_the_page_says_is_what_happens(reader: Reader) -> None:
    _serve, submit, wait, loop, looks = blocks("sh")
    (said,) = blocks("text")
    told = reader.types(submit)
    assert told.returncode == 0, told
    (job,) = set(JOB.findall(told.stdout))
    assert told.stdout + told.stderr == JOB.sub(job, said)

    waited = reader.types(loop.replace("--max 100s", "--max 2s"))
    assert waited.returncode == 0, waited
    (row,) = json.loads(waited.stdout)["jobs"]
    assert (row["job_id"], row["state"], row["submitter"]) == (job, "done", "agent-1")
    found = reader.types(JOB.sub(job, wait))
    assert found.returncode in {0, 1, 4}, found
    assert found.stdout

    statuses = {line: reader.types(_ending(JOB.sub(job, line))).returncode for line in looks.splitlines()}
    expected = {"queue list --watch": 0, "queue retry": 2}  # only dead jobs are retried: this one is done
    assert statuses == {line: next((s for w, s in expected.items() if w in line), 0) for line in statuses}
    assert json.loads(reader.types("codeflash-parallel queue status --json").stdout)["health"]["paused"]
    assert reader.types("codeflash-parallel queue unpause").returncode == 0


def _ending(line: str) -> str:
    """Return a line of the page that ends: somebody who watches presses Ctrl-C at last."""
    return f"timeout --preserve-status --signal=INT 3 {line}" if "--watch" in line else line


def test_the_rules_of_the_page_hold(reader: Reader) -> None:
    rules = read_queue_settings(reader.place.repository, {}, {})
    from_file = [name for name, source in rules.sources.items() if source.endswith("pyproject.toml")]
    found = {name: getattr(rules.settings, name) for name in from_file}
    assert found == {
        "max_concurrent": 2,
        "per_submitter_queued": 50,
        "rate_limit": "30/1m",
        "weights": {"nightly": 0.5},
        "kind_limits": {"race": 1},
    }


@pytest.mark.witness
def test_one_variable_sends_an_existing_program_to_the_daemon(reader: Reader) -> None:
    variable = "CODEFLASH_PARALLEL_EXECUTOR=queue"
    assert variable in PAGE
    check = "check --function words.py::shout --candidates right.py --output-format json"
    told = reader.types(f"CODEFLASH_PARALLEL_SUBMITTER=host {variable} codeflash-parallel {check}")
    assert told.returncode == 0, told
    assert [c["code"] for c in json.loads(told.stdout)["candidates"]] == ["NOT_RACED"]
    mine = reader.types("CODEFLASH_PARALLEL_SUBMITTER=host codeflash-parallel queue list --mine --json")
    assert [job["state"] for job in json.loads(mine.stdout)["jobs"]] == ["done"]
