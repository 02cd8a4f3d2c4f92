"""Other races have the machine for too long: the checks stand, the race is held when the run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from projects import FAST_TOTAL, WRONG_TOTAL, make_project
from scripted_race import simulated

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.main import main
from codeflash_parallel.config.environment import QUIET_VARIABLE
from codeflash_parallel.process import host_lock
from codeflash_parallel.process.files import FileLock, try_lock
from codeflash_parallel.run.race_phase import race_coordinator

pytestmark = pytest.mark.engine

#: How the names of stored checks begin.
CHECKS = ("screen-", "rest-", "fresh-", "clean-")

#: Longer than any race may wait here.
SHORT_S = 0.1


@pytest.fixture
def other_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileLock]:
    """Another race that has this machine; released, it is over. Checks go on beside it."""
    folder = tmp_path / "quiet"
    folder.mkdir()
    monkeypatch.setenv(QUIET_VARIABLE, str(folder))
    monkeypatch.setattr(host_lock, "PATIENCE_S", SHORT_S)
    host_lock.host_quiet(os.environ)  # makes the files
    (turn,) = folder.glob("*.turn")
    held = try_lock(turn)
    assert held is not None
    with held:
        yield held


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object], str]:
    """Return the exit code of a command, its document and its words."""
    code = main([*arguments, "--output-format", "json"])
    said = capsys.readouterr()
    return code, json.loads(said.out), said.err


def checks_of(folder: Path) -> dict[Path, int]:
    """Return the stored checks of a run and when they were written."""
    steps = (folder / "cache").glob("*/runs/*/steps/*/*.json")
    return {path: path.stat().st_mtime_ns for path in steps if path.name.startswith(CHECKS)}


@pytest.mark.witness
def test_checks_stand_and_the_run_goes_on_with_the_race(
    other_race: FileLock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches" / "fast.py").write_text(FAST_TOTAL)
    (tmp_path / "patches" / "wrong.py").write_text(WRONG_TOTAL)
    monkeypatch.chdir(make_project(tmp_path / "project"))
    monkeypatch.setattr(race_coordinator, "_race", simulated({"fast": 1.5}))
    cache = ["--cache-dir", str(tmp_path / "cache")]
    run = ["run", "--candidates", str(tmp_path / "patches"), "--function", "shop/sums.py::total", *cache]

    code, document, said = asked(capsys, *run)

    assert code == ExitCode.NOT_HELD == 7
    codes = {one["id"]: f"{one['status']} {one['code']}" for one in document["candidates"]}
    assert codes == {"fast": "undecided RACE_NOT_HELD", "wrong": "rejected TESTS_FAILED"}
    assert (document["verdict"], document["complete"], document["error"]) == ("too_noisy", True, None)
    why = f"the race was not held: another benchmark (process {os.getpid()}) has had this machine for 0.1 s."
    assert document["summary"] == f"1 of 2 candidates are equivalent to the baseline; {why}"
    assert f"codeflash-parallel resume {document['run_id']}" in said
    assert main(["show", document["run_id"], *cache]) == 0
    assert "not raced: 1 of 2 candidates" in " ".join(capsys.readouterr().out.split())

    checked = checks_of(tmp_path)
    assert len(checked) == 3  # screened both, and compared the right one on fresh inputs
    other_race.release()
    code, document, _ = asked(capsys, "resume", document["run_id"], *cache)

    assert (code, document["winner"]) == (ExitCode.OK, "fast")
    assert checks_of(tmp_path).items() >= checked.items(), "no check is made twice"
