"""Files of the queue that are older, newer, or damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from linearizable import check_journal
from queue_lab import SetClock, lived_in, open_lab

from codeflash_parallel.evalqueue import journal, schema
from codeflash_parallel.evalqueue.database import NAME, connect
from codeflash_parallel.evalqueue.opening import Check
from codeflash_parallel.evalqueue.refusals import (
    BudgetSpent,
    LeaseLost,
    NewerQueue,
    QueueBusy,
    QueueDamaged,
)
from codeflash_parallel.model.jobs import JobState

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"


def spoil(path: Path) -> None:
    """Write over the pages behind the first one."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


# Older and newer files


def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path):
    connection = sqlite3.connect(tmp_path / NAME)
    connection.executescript((DATA / "queue_v1.sql").read_text(encoding="utf-8"))
    columns = {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}
    connection.close()
    assert "last_output" not in columns

    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        states = {job.key.removeprefix("key of the "): job.state for job in lab.store.jobs()}
        assert states == {
            "done one": JobState.DONE,
            "dead one": JobState.DEAD,
            "running one": JobState.RUNNING,
            "first waiting one": JobState.QUEUED,
            "urgent one": JobState.QUEUED,
        }
        done = lab.store.by_key("key of the done one")
        assert done is not None
        assert (done.result, done.last_output, done.run) == ('{"verdict": 1}', "", "r")
        assert lab.fail(lab.claimed(), output="kept now") == JobState.QUEUED
        assert "kept now" in {job.last_output for job in lab.store.jobs()}
        new = {
            row["name"]: row["sql"] for row in lab.store._database.rows("SELECT name, sql FROM sqlite_master")
        }
    with open_lab(tmp_path / "new") as lab:
        for row in lab.store._database.rows("SELECT name, sql FROM sqlite_master WHERE type = 'index'"):
            assert new[row["name"]] == row["sql"]
    with open_lab(tmp_path, now) as lab:
        assert len(lab.store.jobs()) == 5
    assert (tmp_path / NAME).exists()
    assert not list(tmp_path.glob("*damaged*"))


def test_an_older_file_that_others_have_open_is_left_alone(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit()
        lab.store._database.execute("PRAGMA user_version = 1")
        with pytest.raises(QueueBusy):
            open_lab(tmp_path).__enter__()


def test_a_newer_file_is_refused_and_left_as_it_is(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit()
    connection = connect(tmp_path / NAME)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(NewerQueue) as refused:
        open_lab(tmp_path).__enter__()
    assert refused.value.version == schema.VERSION + 1
    assert (tmp_path / NAME).read_bytes() == before


# Damage


@pytest.mark.parametrize("damage", ["pages", "head", "gone", "empty", "other", "counts"])
def test_a_damaged_file_is_moved_aside_and_made_anew_from_the_journal(tmp_path: Path, damage: str):
    now = SetClock()
    with open_lab(tmp_path, now, max_attempts=1) as lab:
        before = lived_in(lab)
    path = tmp_path / NAME
    if damage == "pages":
        spoil(path)
    elif damage == "head":
        path.write_bytes(b"no database" * 1000)
    elif damage == "gone":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        path.unlink()
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE other (x)")
        other.close()
    else:
        wrong = sqlite3.connect(path)
        wrong.execute("UPDATE lanes SET queued = queued + 1")
        wrong.commit()
        wrong.close()

    with open_lab(tmp_path, now, max_attempts=1) as lab:
        # What ran may have been it, and runs alone from now on.
        assert lab.store.jobs() == tuple(
            job._replace(suspect=job.state is JobState.RUNNING) for job in before
        )
        assert bool(list(tmp_path.glob("*.damaged-1"))) is (damage != "gone")
        # Its worker cannot have it any more: nobody had the queue open. It is not to blame.
        running = next(job for job in before if job.state is JobState.RUNNING)
        new = lab.submit("z")
        assert "MACHINE_RESTARTED" in lab.store.job(running.job_id).fault
        with pytest.raises(LeaseLost):
            lab.complete(running)
        assert new.number > max(job.number for job in before)
        taken = [lab.claimed() for _ in range(2)]
        assert new.number in {job.number for job in taken}
        for _ in range(8):
            lab.submit("a", run="r")
        with pytest.raises(BudgetSpent, match="jobs is 9 of 9"):
            lab.submit("a", run="r")
    check_journal(tmp_path)
    with open_lab(tmp_path, now) as lab:
        assert lab.store.job(new.job_id).state == JobState.RUNNING


def test_a_damaged_file_that_others_have_open_is_left_alone_and_told(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        lab.submit()
        connection = connect(tmp_path / NAME)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        spoil(tmp_path / NAME)
        with pytest.raises(QueueDamaged, match="journal"):
            open_lab(tmp_path, now).__enter__()
    with open_lab(tmp_path, now) as lab:
        assert len(lab.store.jobs()) == 1


def test_damage_that_is_met_later_is_told(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        for _ in range(50):
            lab.submit(payload="x" * 5000)
    with open_lab(tmp_path, now, check=Check.HEADER) as lab:
        spoil(tmp_path / NAME)
        with pytest.raises(QueueDamaged, match="journal"):
            lab.store.jobs()
    with open_lab(tmp_path, now, check=Check.FULL) as lab:
        assert len(lab.store.jobs()) == 50


def test_a_journal_that_is_gone_or_too_short_is_written_anew(tmp_path: Path):
    now = SetClock()
    path = tmp_path / journal.NAME
    for spoiled in (
        path.unlink,
        lambda: path.write_bytes(path.read_bytes()[:-9]),
        lambda: path.write_bytes(b""),
    ):
        with open_lab(tmp_path, now) as lab:
            lab.submit()
        spoiled()
        with open_lab(tmp_path, now) as lab:
            lab.submit()
            before = lab.store.jobs()
        assert {change["number"] for change in journal.read(path) if change["table"] == "jobs"} == {
            job.number for job in before
        }
        (tmp_path / NAME).unlink()
        with open_lab(tmp_path, now) as lab:
            assert lab.store.jobs() == before


def test_a_journal_that_is_damaged_inside_is_written_anew_by_who_looks(tmp_path: Path):
    now = SetClock()
    path = tmp_path / journal.NAME
    with open_lab(tmp_path, now) as lab:
        for _ in range(5):
            lab.submit()
        before = lab.store.jobs()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"key"', b'"kex"', 1))
    with open_lab(tmp_path, now, check=Check.HEADER):
        assert len(list(journal.read(path))) == 4
    with open_lab(tmp_path, now, check=Check.FULL):
        pass
    (tmp_path / NAME).unlink()
    with open_lab(tmp_path, now) as lab:
        assert lab.store.jobs() == before


def test_a_journal_that_has_become_long_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codeflash_parallel.evalqueue.database._LONG_BYTES", 1000)
    monkeypatch.setattr("codeflash_parallel.evalqueue.database._LONG_FACTOR", 0)
    now = SetClock()
    path = tmp_path / journal.NAME
    with open_lab(tmp_path, now) as lab:
        lab.submit()
        for _ in range(20):
            job = lab.claimed()
            lab.store.release(job.job_id, job.fence, now())
        before = lab.store.jobs()
    long = path.stat().st_size
    with open_lab(tmp_path, now):
        pass
    assert path.stat().st_size < long / 3
    (tmp_path / NAME).unlink()
    with open_lab(tmp_path, now) as lab:
        assert lab.store.jobs() == before


def test_what_a_writer_that_died_left_in_the_journal_is_cut_off(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        lab.submit()
    path = tmp_path / journal.NAME
    whole = path.read_bytes()
    path.write_bytes(
        whole + journal.line_of({"event": "cancelled", "table": "jobs", "number": 1, "state": "cancelled"})
    )
    with open_lab(tmp_path, now) as lab:
        job = lab.submit()
    assert path.read_bytes().startswith(whole)
    assert [change["event"] for change in journal.read(path) if change["table"] == "jobs"] == [
        "submitted"
    ] * 2
    assert job.number == 2


def test_a_damaged_line_of_the_journal_costs_no_other_job(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        jobs = [lab.submit() for _ in range(5)]
    path = tmp_path / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"key", b"kex")
    path.write_bytes(b"".join(lines))
    (tmp_path / NAME).unlink()
    with open_lab(tmp_path, now) as lab:
        kept = {job.job_id for job in lab.store.jobs()}
    assert len(kept) == 4
    assert kept < {job.job_id for job in jobs}
