"""Runs that are killed with SIGKILL after each kind of step, and resumed until they end."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from harness import LONGEST_S, assert_same, picture, processes_of, wait_for, worktrees_left
from killed import submissions
from projects import SLOW_TOTAL, make_project

from codeflash_parallel import Settings, UsageError, resume, stored_run
from codeflash_parallel.cli.main import main
from codeflash_parallel.config.settings import settings_document
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.run.run_state import (
    SCHEMA,
    RunRequest,
    StepCache,
    StepKind,
    read_state,
    text_of,
    write_request,
)
from codeflash_parallel.workspace.cleanup import recover
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

pytestmark = pytest.mark.engine

HERE = Path(__file__).parent
#: Files that a run without a race writes, in the order in which a run comes to them.
WRITTEN = ("run.json", "snapshot-", "prepared-", "first-", "screen-", "repair-", "fresh-", "end.json")
#: Finds modules as we do, without a variable of the environment: findings depend on those.
START = """
import json, runpy, sys
sys.path[:0], script = json.loads(sys.argv[1]), sys.argv[2]
sys.argv[1:3] = []
runpy.run_path(script, run_name="__main__")
"""
WRITTEN_IN_A_RACE = ("race-", "profile-")
#: A project whose function is worth a race of half a second.
EXPECTED = {
    "fast": "undecided NOT_RACED",
    "wrong": "rejected TESTS_FAILED",
    "broken": "unappliable DOES_NOT_PARSE",
    "wrong-repaired": "undecided NOT_RACED",
}


@dataclass(frozen=True, slots=True)
class Killing:
    """Runs of one project that kill themselves."""

    folder: Path
    race: bool = False

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    def run(self, after: str, run_id: str = "") -> subprocess.CompletedProcess[bytes]:
        what = {"project": str(self.project), "cache": str(self.cache), "run": run_id, "after": after}
        what |= {"asked": str(self.folder / "asked"), "race": self.race}
        paths = [str(HERE), str(HERE.parent), *filter(None, sys.path)]
        done = subprocess.run(
            [sys.executable, "-c", START, json.dumps(paths), str(HERE / "killed.py"), json.dumps(what)],
            capture_output=True,
            timeout=240,
            check=False,
        )
        assert wait_for(lambda: not processes_of(self.cache), LONGEST_S), processes_of(self.cache)
        return done

    def killed(self, after: str, run_id: str = "") -> str:
        """Let a run kill itself after an event; return its id."""
        done = self.run(after, run_id)
        assert done.returncode == -signal.SIGKILL, (after, done.stderr.decode())
        return self.run_dir.name

    @property
    def run_dir(self) -> Path:
        (found,) = self.cache.glob("*/runs/*")
        return found

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text(encoding="utf-8").splitlines()


def steps_of(run_dir: Path) -> dict[Path, int]:
    """Return the stored steps of a run and when they were written."""
    return {path: path.stat().st_mtime_ns for path in (run_dir / "steps").rglob("[a-z]*.json")}


def test_a_run_that_is_killed_after_every_kind_of_step_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killing = Killing(tmp_path)
    make_project(killing.project)
    before = picture(killing.project)
    run_id = ""
    known: dict[Path, int] = {}
    for name in WRITTEN:
        run_id = killing.killed(name, run_id)
        steps = steps_of(killing.run_dir)
        assert steps.items() >= known.items(), f"{name}: a step was made twice"
        known = steps
        assert_same(before, picture(killing.project))
    # Killed after its last word, it is finished; what it says is there.
    monkeypatch.chdir(killing.project)
    told = ["--cache-dir", str(killing.cache)]
    assert main(["resume", "last", "--output-format", "json", *told]) == 0
    said = capsys.readouterr()
    assert "is finished" in said.err
    found = {c["id"]: f"{c['status']} {c['code']}" for c in json.loads(said.out)["candidates"]}
    assert found == EXPECTED
    assert killing.asked == ["wrong"]
    checks = [path.name.partition("-")[0] for path in known if path.name.startswith(("screen-", "fresh-"))]
    assert sorted(checks) == ["fresh", "fresh", "screen", "screen", "screen"]
    anyio.run(recover, killing.cache)  # what the next start does first
    assert worktrees_left(killing.cache) == []
    assert_same(before, picture(killing.project))


@pytest.mark.campaign
@pytest.mark.parametrize("name", WRITTEN_IN_A_RACE)
def test_a_race_that_was_held_is_not_held_again(name: str, tmp_path: Path) -> None:
    slow = SLOW_TOTAL.replace("range(5)", "range(400)")
    killing = Killing(tmp_path, race=True)
    make_project(killing.project, shop__sums_py=slow)
    run_id = _profiled(killing) if name == "profile-" else killing.killed(name)
    known = steps_of(killing.run_dir)
    assert any(path.name.startswith("race-") for path in known)
    done = killing.run("", run_id)
    assert done.returncode == 0, done.stderr.decode()
    assert steps_of(killing.run_dir).items() >= known.items()
    found = json.loads(done.stdout)
    assert found["wrong"] == EXPECTED["wrong"]
    assert found["fast"].split()[0] in {"won", "tied", "undecided"}
    assert killing.asked.count("wrong") == 1


@pytest.mark.witness
def test_a_run_goes_on_with_its_own_snapshot_and_settings(tmp_path: Path) -> None:
    killing = Killing(tmp_path)
    make_project(killing.project)
    run_id = killing.killed("screen-")
    cache = str(killing.cache)
    with pytest.raises(UsageError, match="timeout") as caught:
        stored_run(run_id, killing.project, cache_dir=cache, timeout=3.0)
    assert caught.value.code == "OTHER_SETTINGS"
    (killing.project / "shop" / "sums.py").write_text("def total(values):\n    return 0\n")
    result = resume(run_id, killing.project, cache_dir=cache)
    assert result.complete
    assert result.run_id == run_id
    assert {c.id: c.status for c in result.candidates} == {
        "fast": CandidateStatus.UNDECIDED,
        "wrong": CandidateStatus.REJECTED,
        "broken": CandidateStatus.UNAPPLIABLE,
    }
    for words in ("The tree has changed", "of 3 candidates had been checked", "had a repairer"):
        assert any(words in warning for warning in result.warnings), result.warnings
    with pytest.raises(UsageError) as caught:
        resume(run_id, killing.project, cache_dir=cache)
    assert caught.value.code == "RUN_FINISHED"


def _profiled(killing: Killing) -> str:
    """Let a run kill itself after it has profiled its winner; a machine that is too busy has none."""
    done = killing.run("profile-")
    if done.returncode == 0:
        pytest.skip(f"no candidate led the race, so that none was profiled: {done.stdout.decode()}")
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return killing.run_dir.name


def test_a_snapshot_that_is_gone_is_said(cut_short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = Snapshot(commit="1" * 40, tree="2" * 40, base="")
    StepCache(cut_short).put(Snapshot, gone, StepKind.SNAPSHOT)
    assert main(["resume", "-q"]) == 4
    assert "The snapshot 111111111111 of the run is gone" in capsys.readouterr().err


def spoil(run_dir: Path, how: str) -> None:
    """Do something to the request of a run."""
    path = run_dir / "run.json"
    request = read_state(run_dir).request
    later = text_of(RunRequest, replace(request, schema=99))
    changed: dict[str, bytes] = {
        "damaged": path.read_bytes().replace(b'"seed":1', b'"seed":2'),
        "newer": later,
    }
    path.write_bytes(changed[how])


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("damaged", 4, "run.json is damaged"),
        ("newer", 4, "schema 99"),
        ("alive", 2, "still going on"),
        ("unknown", 2, "There is no run"),
        ("gone", 2, "There is no run"),
    ],
)
def test_what_cannot_be_gone_on_with_is_said_in_one_line(
    how: str, status: int, words: str, cut_short: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = cut_short
    request = run_dir / "run.json"
    name, handle = run_dir.name, -1
    if how == "alive":
        handle = _held(run_dir)
    elif how == "unknown":
        name = "nothing"
    elif how == "gone":
        request.unlink()
    else:
        spoil(run_dir, how)
    try:
        assert main(["resume", name]) == status
    finally:
        if handle >= 0:
            os.close(handle)
    said = capsys.readouterr()
    assert words in said.err
    assert len([line for line in said.err.splitlines() if line.strip()]) <= 2
    assert said.out == ""


def _held(run_dir: Path) -> int:
    handle = os.open(run_dir / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


@pytest.fixture
def cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a run that was killed when it had begun, in whose project we stand."""
    project = make_project(tmp_path / "project")
    monkeypatch.chdir(project)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    run_dir = tmp_path / "cache" / find_repository(project).key / "runs" / "20250101-120000-abcdef"
    run_dir.mkdir(parents=True)
    request = RunRequest(
        schema=SCHEMA,
        run_id=run_dir.name,
        version="0.1.0",
        repository=str(project.resolve()),
        project=".",
        mode="race",
        seed=1,
        settings=settings_document(Settings()),
        submissions=tuple(submissions()),
    )
    write_request(run_dir, request)
    return run_dir


def test_list_and_show_tell_of_a_run_that_was_killed(
    cut_short: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--output-format", "json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["run_id"], listed["outcome"]) == (cut_short.name, "KILLED")
    assert f"resume {cut_short.name}" in listed["summary"]
    assert main(["show"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The run was killed: 0 of 3 candidates had been checked." in shown
    assert f"resume {cut_short.name}" in shown
    assert main(["apply", "last"]) == 2  # `last` means one that has a result there
    assert "There is no run" in capsys.readouterr().err


def test_a_run_that_goes_on_is_shown_as_such(cut_short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handle = _held(cut_short)
    try:
        assert main(["list", "--output-format", "json"]) == 0
    finally:
        os.close(handle)
    (listed,) = json.loads(capsys.readouterr().out)
    assert listed["outcome"] == "RUNNING"
