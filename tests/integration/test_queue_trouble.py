"""What happens to the queue when its file, its disk, its machine or its clock is in trouble."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from linearizable import check_journal
from mounts import mounting, small_disk, why_no_mounts
from queue_lab import Lab, SetClock, open_lab

from codeflash_parallel.evalqueue import filesystems, journal, schema
from codeflash_parallel.evalqueue.database import NAME, connect
from codeflash_parallel.evalqueue.handover import turn
from codeflash_parallel.evalqueue.opening import Check
from codeflash_parallel.evalqueue.refusals import (
    BudgetSpent,
    LeaseLost,
    NetworkFileSystem,
    NewerQueue,
    QueueBusy,
    QueueDamaged,
    QueueDiskFull,
)
from codeflash_parallel.model.jobs import Budget, Job, JobState

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data"
DAY_S = 86_400.0


def lived_in(lab: Lab) -> tuple[Job, ...]:
    """Let a queue have one job in each state, and return them."""
    done, dead, running = lab.submit("a", run="r", budget=Budget(jobs=9)), lab.submit("b"), lab.submit("c")
    claimed = {job.job_id: job for job in (lab.claimed(), lab.claimed(), lab.claimed())}
    lab.complete(claimed[done.job_id], '{"verdict": 1}')
    assert lab.fail(claimed[dead.job_id], output="its last words") == JobState.DEAD
    assert lab.state(running) == JobState.RUNNING
    gone = lab.submit("b")
    lab.store.cancel(gone.job_id, lab.now())
    lab.submit("a"), lab.submit("b", start_after_s=1000.0)
    return lab.store.jobs()


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


@pytest.mark.parametrize("damage", ["pages", "head", "gone", "other", "counts"])
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
        assert lab.store.jobs() == before
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


# The disk


FULL = """
import sys
from contextlib import suppress
from pathlib import Path
sys.path[:0] = {paths!r}
from queue_lab import open_lab
from codeflash_parallel.evalqueue.refusals import QueueDiskFull
folder = Path(sys.argv[1])
ballast = folder / "ballast"
ballast.write_bytes(bytes(200_000))
with open_lab(folder / "queue", max_queue_size=0) as lab:
    kept, full = [], 0
    job = lab.submit(payload="x" * 2000)
    kept.append(job.job_id)
    claimed = lab.claimed()
    for number in range(2000):
        try:
            kept.append(lab.submit(payload="x" * 2000).job_id)
        except QueueDiskFull:
            full += 1
            with suppress(QueueDiskFull):
                lab.complete(claimed, "y" * 100_000)
                sys.exit("there was room for a result")
            if full > 3:
                break
    assert full > 3, full
    ballast.unlink()
    lab.complete(claimed, "y")
    kept.append(lab.submit().job_id)
    assert {{job.job_id for job in lab.store.jobs()}} == set(kept), "acknowledged jobs are not those that are there"
with open_lab(folder / "queue", max_queue_size=0) as lab:
    assert {{job.job_id for job in lab.store.jobs()}} == set(kept)
    print(len(kept), full)
"""


def test_a_full_disk_is_told_and_nothing_is_lost(tmp_path: Path):
    if why := why_no_mounts(tmp_path):
        pytest.skip(why)
    disk = tmp_path / "disk"
    disk.mkdir()
    script = FULL.format(paths=[str(HERE), str(HERE.parent)])
    command = [*mounting([small_disk(disk, "size=3m")]), sys.executable, "-c", script, str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 20


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Path] = []

    def name_of(folder: Path) -> str:
        asked.append(folder)
        return "nfs4"

    monkeypatch.setattr(filesystems, "file_system_of", name_of)
    with pytest.raises(NetworkFileSystem, match="nfs4"):
        open_lab(tmp_path / "queue").__enter__()
    assert asked == [tmp_path / "queue"]
    assert list((tmp_path / "queue").iterdir()) == []


def test_the_kernel_says_what_a_folder_lies_on(tmp_path: Path):
    assert filesystems.file_system_of(Path("/proc")) == "proc"
    if why := why_no_mounts(tmp_path):
        pytest.skip(why)
    code = f"from codeflash_parallel.evalqueue.filesystems import file_system_of as f; from pathlib import Path; print(f(Path({str(tmp_path)!r})))"
    command = [*mounting([small_disk(tmp_path, "size=64k")]), sys.executable, "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "tmpfs"


# The machine and its clock


def test_clock_steps_of_a_day_end_no_lease_and_expire_nothing(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now, queue_timeout=3600.0) as lab:
        waiting, running = lab.submit("a"), lab.submit("b")
        job = lab.claimed()
        lab.claimed()
        lab.store.release(job.job_id, job.fence, now())
        for step_s in (DAY_S, -2 * DAY_S, DAY_S):
            now.wall_s += step_s
            now(later_s=5.0)
            assert lab.store.health(now()).oldest_s <= 20.0
            assert {lab.state(waiting), lab.state(running)} == {JobState.QUEUED, JobState.RUNNING}
            assert lab.store.next_change(now()) > 0


def test_after_a_start_of_the_machine_its_jobs_come_back_at_once_and_time_has_gone_on(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now, queue_timeout=DAY_S) as lab:
        lab.submit("a")
        running = lab.claimed()
        waiting = lab.submit("b")
    now = SetClock(boot_s=3.0, wall_s=now.wall_s + 3600.0, boot_id="second start")
    with open_lab(tmp_path, now, queue_timeout=DAY_S) as lab:
        assert lab.claimed().job_id == waiting.job_id
        back = lab.store.job(running.job_id)
        assert (back.state, back.crashes, back.machinery_faults) == (JobState.QUEUED, 0, 1)
        assert "MACHINE_RESTARTED" in back.fault
        assert lab.store.health(now()).oldest_s == pytest.approx(3600.0, abs=1.0)
        now(later_s=DAY_S - 3590.0)
        assert lab.store.place(running.job_id, now()).position == 0
        assert lab.state(running) == JobState.EXPIRED


# Processes that are stopped, or die


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from queue_lab import open_lab
from codeflash_parallel.evalqueue.clock import now
with open_lab(Path(sys.argv[1]), now) as lab:
{body}
"""


@contextmanager
def child(folder: Path, body: str) -> Iterator[subprocess.Popen[str]]:
    script = CHILD.format(
        paths=[str(HERE), str(HERE.parent)], body=textwrap.indent(textwrap.dedent(body), "    ")
    )
    command = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_worker_stopped_beyond_its_lease_is_refused_when_it_goes_on(tmp_path: Path):
    body = """
        job = lab.claimed()
        print(job.job_id, flush=True)
        sys.stdin.readline()
        try:
            lab.complete(job, "too late")
        except Exception as error:
            print(error.code, flush=True)
    """
    from codeflash_parallel.evalqueue.clock import now

    with open_lab(tmp_path, now, lease=0.2, heartbeat=0.1) as lab:
        lab.submit()
    with child(tmp_path, body) as worker, open_lab(tmp_path, now, lease=0.2, heartbeat=0.1) as lab:
        name = said(worker)
        worker.send_signal(signal.SIGSTOP)
        lab.store._database.execute("UPDATE jobs SET lease_ms = 1")  # it has been stopped for long
        taken = lab.claimed()
        assert (taken.job_id, taken.fence) == (name, 2)
        lab.complete(taken, "in time")
        worker.send_signal(signal.SIGCONT)
        print(file=worker.stdin, flush=True)
        assert said(worker) == "LEASE_LOST"
        assert lab.store.job(name).result == "in time"


def test_a_process_that_dies_within_a_transaction_leaves_nothing_of_it(tmp_path: Path):
    body = """
        with lab.store._database.changing(now()) as clock:
            lab.store._admission._insert(__import__("test_queue_store").request("half"), "alone a", 5, now())
            lab.store._database._write_journal()
            print("inside", flush=True)
            sys.stdin.readline()
    """
    with open_lab(tmp_path) as lab:
        lab.submit()
    with child(tmp_path, body) as writer:
        assert said(writer) == "inside"
        writer.kill()
        writer.wait()
    assert len(list(journal.read(tmp_path / journal.NAME))) > 1
    with open_lab(tmp_path) as lab:
        assert len(lab.store.jobs()) == 1
        lab.submit()
    history = check_journal(tmp_path)
    assert len(history.submitted) == 2
    assert "half" not in history.submitted.values()


def test_one_that_is_stopped_in_the_line_holds_nobody_up_for_long(tmp_path: Path):
    script = f"""
import sys
from pathlib import Path
from codeflash_parallel.evalqueue.handover import turn
with turn(Path({str(tmp_path / "turns")!r}), 5.0):
    print("mine", flush=True)
    sys.stdin.readline()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert said(holder) == "mine"
        holder.send_signal(signal.SIGSTOP)
        passed = False
        with turn(tmp_path / "turns", 0.05):
            passed = True
        assert passed
        holder.send_signal(signal.SIGKILL)
    with turn(tmp_path / "turns", 60.0):
        pass


def test_turns_are_given_in_the_order_in_which_processes_came(tmp_path: Path):
    tail, order = tmp_path / "turns", tmp_path / "order"
    script = f"""
import sys
from pathlib import Path
from codeflash_parallel.evalqueue import handover
waiting = handover._wait_for_end
def told(name, longest_s):
    print("joined", flush=True)
    waiting(name, longest_s)
handover._wait_for_end = told
with handover.turn(Path({str(tail)!r}), 30.0), open({str(order)!r}, "a") as file:
    file.write(sys.argv[1])
"""
    processes = []
    with turn(tail, 1.0):
        for name in "abcde":
            process = subprocess.Popen(
                [sys.executable, "-c", script, name], stdout=subprocess.PIPE, text=True
            )
            processes.append(process)
            assert said(process) == "joined"
        assert not order.exists(), "somebody has not waited"
    for process in processes:
        with process:
            assert process.wait(30) == 0
    assert order.read_text() == "abcde"


def test_the_file_held_by_one_that_is_stopped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codeflash_parallel.evalqueue.database._TURN_S", 0.05)
    monkeypatch.setattr("codeflash_parallel.evalqueue.database._BUSY_S", 0.05)
    body = """
        with lab.store._database.changing(now()):
            print("inside", flush=True)
            sys.stdin.readline()
    """
    with open_lab(tmp_path) as lab, child(tmp_path, body) as writer:
        assert said(writer) == "inside"
        with pytest.raises(QueueBusy):
            lab.submit()
        assert lab.store.jobs() == ()
        print(file=writer.stdin, flush=True)
        writer.wait(30)
        lab.submit()


def test_two_that_open_at_once_make_one_queue(tmp_path: Path):
    body = """
        lab.store.submit(__import__("test_queue_store").request(sys.argv[1] + str(__import__("os").getpid())), now())
        print("done", flush=True)
    """
    folder = tmp_path / "deep" / "queue"
    with child(folder, body) as one, child(folder, body) as two, child(folder, body) as three:
        assert [said(one), said(two), said(three)] == ["done"] * 3
    with open_lab(folder) as lab:
        assert len(lab.store.jobs()) == 3
    assert not list(folder.glob("*damaged*"))


def test_the_journal_is_json_a_line(tmp_path: Path):
    with open_lab(tmp_path, max_attempts=1) as lab:
        lived_in(lab)
    events = []
    for line in (tmp_path / journal.NAME).read_text(encoding="ascii").splitlines():
        change = json.loads(line.partition(" ")[2])
        events.append(change.get("event", "head"))
    assert events[0] == "head"
    assert {"submitted", "claimed", "completed", "died", "cancelled", "budgeted"} <= set(events)


def test_disk_full_in_the_journal_undoes_the_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with open_lab(tmp_path) as lab:
        lab.submit()

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(journal, "_write", full)
            with pytest.raises(QueueDiskFull):
                lab.submit()
        assert len(lab.store.jobs()) == 1
        lab.submit()
        assert len(lab.store.jobs()) == 2
    check_journal(tmp_path)
