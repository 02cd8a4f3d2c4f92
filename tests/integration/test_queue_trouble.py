"""What happens to the queue when its disk, its machine or its clock is in trouble."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mounts import mounting, small_disk, why_no_mounts
from queue_lab import SetClock, open_lab

from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.queue.queue_errors import NetworkFileSystem
from codeflash_parallel.queue.store import database

HERE = Path(__file__).resolve().parent


DAY_S = 86_400.0


# The disk


FULL = """
import sys
from contextlib import suppress
from pathlib import Path
sys.path[:0] = {paths!r}
from queue_lab import open_lab
from codeflash_parallel.queue.queue_errors import QueueDiskFull
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


OPENED = """
import sys
from contextlib import suppress
from pathlib import Path
sys.path[:0] = {paths!r}
from queue_lab import open_lab
from codeflash_parallel.queue.queue_errors import QueueDiskFull
folder = Path(sys.argv[1])
with open_lab(folder / "queue") as lab:
    lab.submit()
with (folder / "ballast").open("wb", 0) as file, suppress(OSError):
    while file.write(bytes(4096)):
        pass
try:
    open_lab(folder / "queue").__enter__()
except QueueDiskFull:
    (folder / "ballast").unlink()
with open_lab(folder / "queue") as lab:
    print(len(lab.store.jobs()), (folder / "ballast").exists())
"""


def test_a_disk_that_is_full_when_the_queue_is_opened_is_told_so(tmp_path: Path):
    if why := why_no_mounts(tmp_path):
        pytest.skip(why)
    script = OPENED.format(paths=[str(HERE), str(HERE.parent)])
    command = [*mounting([small_disk(tmp_path, "size=1m")]), sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.returncode) == ("1 False\n", 0), done.stderr


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Path] = []

    def name_of(folder: Path) -> str:
        asked.append(folder)
        return "nfs4"

    monkeypatch.setattr(database, "file_system_of", name_of)
    with pytest.raises(NetworkFileSystem, match="nfs4"):
        open_lab(tmp_path / "queue").__enter__()
    assert asked == [tmp_path / "queue"]
    assert list((tmp_path / "queue").iterdir()) == []


def test_the_kernel_says_what_a_folder_lies_on(tmp_path: Path):
    assert database.file_system_of(Path("/proc")) == "proc"
    if why := why_no_mounts(tmp_path):
        pytest.skip(why)
    code = f"from codeflash_parallel.queue.store.database import file_system_of as f; from pathlib import Path; print(f(Path({str(tmp_path)!r})))"
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


def test_a_wall_clock_that_is_behind_after_a_start_of_the_machine_does_not_turn_time_back(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now, rate_limit="1/1m") as lab:
        lab.submit("a")
        lab.complete(lab.claimed())
        lab.submit("a")
        assert lab.claim() is None
    now = SetClock(boot_s=3.0, wall_s=0.0, boot_id="second start")
    with open_lab(tmp_path, now, rate_limit="1/1m") as lab:
        assert lab.claim() is None
        now(later_s=61.0)
        assert lab.claim() is not None
