"""`replay` on a stored run: the same verdict, another one, a what-if, and records that are damaged."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest
from simulated_races import CONFIRM, PLAN, RUN, held, recorded

from codeflash_parallel.cli.exits import ExitCode
from codeflash_parallel.cli.main import main
from codeflash_parallel.engine.samples import Recorder, load_records
from codeflash_parallel.engine.store import save_run
from codeflash_parallel.model.result import RunResult
from codeflash_parallel.worktrees.repository import find_repository


@pytest.fixture(scope="module")
def records():
    return recorded(held({"fast": 1.5, "same": 1.0}, PLAN), [held({"fast": 1.5}, CONFIRM)])


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, env=environment)
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    run_dir = tmp_path / "cache" / find_repository(root).key / "runs" / "20250101-120000-abcdef"
    result = RunResult(
        run_id=run_dir.name, complete=True, repository=str(root.resolve()), run_dir=str(run_dir)
    )
    save_run(run_dir, result, [])
    return run_dir


def write(run_dir, records):
    async def add_all():
        recorder = Recorder(run_dir, RUN)
        for record in records:
            await recorder.add(record)

    anyio.run(partial(add_all))


def asked(capsys, *arguments):
    """Return the exit code and the document of `replay`."""
    code = main(["replay", *arguments, "--output-format", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_records_are_on_disk_in_order(run_dir, records) -> None:
    write(run_dir, records[1:])

    assert load_records(run_dir) == tuple(records)


def test_the_same_verdict(run_dir, records, capsys) -> None:
    write(run_dir, records[1:])

    assert main(["replay"]) == ExitCode.OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 race, 1 confirmation, 48 rounds" in shown
    assert "Recorded: fast is 1.50 times as fast" in shown
    assert "the same, bit by bit" in shown
    code, document = asked(capsys)
    assert (code, document["same"], document["differences"]) == (ExitCode.OK, True, [])
    assert document["recomputed"] == document["recorded"]
    assert document["recorded"]["candidates"][0]["speedup"]["stage"] == "confirmation"


def test_another_verdict_has_an_exit_code_of_its_own(run_dir, records, capsys) -> None:
    ranking = replace(records[-1].ranking, winner="same")
    write(run_dir, [*records[1:-1], replace(records[-1], ranking=ranking)])

    assert main(["replay"]) == ExitCode.DIFFERS
    shown = capsys.readouterr().out
    assert "NOT the same" in shown
    assert "What differs: ranking: winner." in shown
    code, document = asked(capsys)
    assert (code, document["same"]) == (ExitCode.DIFFERS, False)


def test_a_what_if_says_so(run_dir, records, capsys) -> None:
    write(run_dir, records[1:])

    assert main(["replay", "--min-speedup", "0.9"]) == ExitCode.OK
    shown = " ".join(capsys.readouterr().out.split())
    assert "What if --min-speedup 0.9: No candidate is" in shown
    assert "Nothing was timed again" in shown
    _, document = asked(capsys, "--confidence", "0.999")
    assert document["what_if"] == {"confidence": 0.999}


def test_rules_that_no_run_could_have(run_dir, records, capsys) -> None:
    write(run_dir, records[1:])

    assert main(["replay", "--confidence", "0.2"]) == ExitCode.USAGE
    assert "confidence must lie between" in capsys.readouterr().err


def test_a_run_without_a_race(run_dir, capsys) -> None:
    assert main(["replay"]) == ExitCode.USAGE
    assert "recorded no race: there is nothing to replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "damage", "said"),
    [
        (1, lambda path: path.unlink(), "0001.json cannot be read: it is missing"),
        (2, lambda path: os.truncate(path, 300), "0002.json cannot be read: it is damaged at character"),
        (0, lambda path: path.write_text("{}"), "its schema version is None, this program reads 1"),
        (3, lambda path: path.unlink(), "cannot be replayed: the run ended before its race was decided"),
        (2, lambda path: path.write_bytes(b"\xff"), "0002.json cannot be read"),
    ],
)
def test_damaged_records_are_said_in_one_line(run_dir, records, capsys, number, damage, said) -> None:
    write(run_dir, records[1:])
    damage(run_dir / "races" / f"{number:04d}.json")

    assert main(["replay"]) == ExitCode.UNFIT
    error = capsys.readouterr().err
    assert said in error
    assert len([line for line in error.splitlines() if not line.startswith("  ")]) == 1
