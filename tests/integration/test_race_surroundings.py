"""What a race reads of the kernel and leaves behind on the disk: real processes, real folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeflash_parallel.process.process_table import child_called, children, own_number
from codeflash_parallel.race.round import read_machine, siblings, stand_aside
from codeflash_parallel.race.statistics.round_validity import stepped
from codeflash_parallel.race.worker.arm_failure import (
    ArmFailure,
    ArmMemoryLimitExceeded,
    ArmOutOfMemory,
    ArmStartFailure,
    explained,
    out_of,
)
from codeflash_parallel.race.worker.leftover_files import (
    LeftoverFiles,
    SharedMemoryLeftovers,
    private_folders,
    read_shared,
)
from codeflash_parallel.race.worker.process_accounting import (
    ProcessAccounting,
    ProcessCounters,
    ProcessEnded,
    ResidentMemory,
    cpu_with_children_ns,
    own_queued_ns,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit, Workspace

CHILD = """
import os, sys
def say(): sys.stdout.write("."); sys.stdout.flush(); sys.stdin.read(1)
say()
held = bytearray(40_000_000)
for _ in range(50): os.read(os.open("/dev/zero", os.O_RDONLY), 1)
pid = os.fork()
if pid == 0:
    end = os.times().user + 0.05
    while os.times().user < end: pass
    os._exit(0)
say()
os.waitpid(pid, 0)
say()
"""


@contextmanager
def child():
    """Run the script above; each call of the result lets it go on to its next stop."""
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=-1, stdout=-1, bufsize=0) as process:

        def goes_on():
            process.stdin.write(b".")
            process.stdout.read(1)

        process.stdout.read(1)
        try:
            yield process.pid, goes_on
        finally:
            process.kill()


def test_a_witness_sees_what_a_process_does():
    with child() as (pid, goes_on):
        witness = ProcessAccounting(pid)
        before, memory, cpu_ns = witness.counts(), witness.memory(), witness.cpu_ns()
        assert witness.children() == 0
        goes_on()
        assert witness.memory().peak >= memory.now + 40_000_000
        assert witness.counts().reads >= before.reads + 50
        assert witness.cpu_ns() > cpu_ns
        assert witness.children() == 1
        own_ns = witness.cpu_ns()
        goes_on()
        assert witness.children() == 0
        assert cpu_with_children_ns(pid) >= 40_000_000 > witness.cpu_ns() - own_ns
        assert pid in children(os.getpid())
        assert child_called(os.getpid(), pid) == pid
        assert child_called(os.getpid(), os.getpid()) == 0


def test_of_a_process_that_is_gone_nothing_is_known():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    witness = ProcessAccounting(process.pid)

    assert (witness.counts(), witness.memory(), witness.children()) == (
        ProcessCounters(),
        ResidentMemory(),
        0,
    )
    assert (own_number(process.pid), cpu_with_children_ns(process.pid)) == (0, 0)
    assert children(process.pid) == []
    with pytest.raises(ProcessEnded):
        witness.cpu_ns()


@pytest.mark.parametrize(
    ("ended", "kind", "words"),
    [
        (ExitKind.OOM_KILLED, ArmOutOfMemory, "no memory left"),
        (ExitKind.NOT_STARTED, ArmStartFailure, "could not be started"),
        (ExitKind.MEMORY_LIMIT, ArmMemoryLimitExceeded, "memory limit: 300 MiB"),
        (ExitKind.EXITED, ArmFailure, "ended before its time: last words"),
    ],
)
def test_why_an_arm_was_lost(ended, kind, words):
    lost = explained(
        ArmFailure("ended before its time"), ProcessExit(ended=ended, message="300 MiB", stderr="last words")
    )
    assert type(lost) is kind
    assert words in lost.reason


@pytest.mark.parametrize(
    ("ended", "status", "code"),
    [
        (ExitKind.OOM_KILLED, CandidateStatus.INFRA, Code.INFRA_MEMORY),
        (ExitKind.NOT_STARTED, CandidateStatus.INFRA, Code.INFRA_SLOT),
        (ExitKind.MEMORY_LIMIT, CandidateStatus.REJECTED, Code.OUT_OF_MEMORY),
        (ExitKind.EXITED, CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED),
    ],
)
def test_a_lost_arm_has_the_code_that_its_end_has_in_a_check(ended, status, code):
    out = out_of(explained(ArmFailure("ended before its time"), ProcessExit(ended=ended)))
    assert (out.status, out.code) == (status, code)


def test_time_in_line_is_counted():
    """Two busy processes on one core push each other off it."""
    core = min(os.sched_getaffinity(0))
    pin = f"import os\nos.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    pair = [subprocess.Popen([sys.executable, "-c", pin], stdout=-1) for _ in range(2)]
    try:
        for process in pair:
            process.stdout.readline()
        witness, deadline = ProcessAccounting(pair[0].pid), time.monotonic() + 60
        while not witness.counts().queued_ns:
            assert time.monotonic() < deadline
    finally:
        for process in pair:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()


def test_this_machine_tells_its_clocks():
    assert stepped(read_machine(), read_machine()) == ""
    assert own_queued_ns() >= 0


def test_siblings_as_the_kernel_writes_them(tmp_path):
    for core, shown in ((0, "0,4\n"), (1, "0-2,5\n")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(shown)

    assert siblings(0, tmp_path) == {4}
    assert siblings(1, tmp_path) == {0, 2, 5}
    assert siblings(7, tmp_path) == frozenset()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_standing_aside_leaves_the_siblings_of_a_core(tmp_path):
    allowed = os.sched_getaffinity(0)
    core, other, *_ = sorted(allowed)
    shown = tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list"
    shown.parent.mkdir(parents=True)

    def while_aside(siblings_list, of=core):
        shown.write_text(siblings_list)
        with stand_aside(of, tmp_path):
            return os.sched_getaffinity(0)

    assert while_aside(f"{core},{other}") == allowed - {other}
    assert while_aside(f"{core}") == allowed
    assert while_aside(f"{core},{other}", of=-1) == allowed
    assert os.sched_getaffinity(0) == allowed


def test_private_folders_are_those_of_the_workspace(tmp_path):
    private = tmp_path / "private"
    (private / "home").mkdir(parents=True)
    names = {"HOME": private / "home", "TMPDIR": private / "gone", "PATH": "/usr/bin", "OTHER": tmp_path}
    workspace = Workspace(
        root=tmp_path, project=tmp_path, user_root=tmp_path, interpreter=tmp_path, private=private,
        environment={name: str(value) for name, value in names.items()},
    )  # fmt: skip

    assert private_folders(workspace) == {private / "home"}


def test_what_is_new_is_removed(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("1")
    outside = tmp_path.with_name("outside")
    outside.mkdir()
    (outside / "file").write_text("1")
    leftovers = LeftoverFiles([tmp_path])
    (tmp_path / "old" / "new").mkdir()
    (tmp_path / "old" / "new" / "file").write_text("1")
    (tmp_path / "new").write_text("1")
    (tmp_path / "link").symlink_to(outside)

    assert leftovers.remove()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "old"]
    assert (outside / "file").exists()
    assert leftovers.remove()


def test_what_cannot_be_undone_is_said(tmp_path):
    file = tmp_path / "file"
    file.write_text("1")
    times = file.stat()
    leftovers = LeftoverFiles([tmp_path])
    file.write_text("2")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert not leftovers.remove()
    file.unlink()
    assert not leftovers.remove()


def test_no_link_is_followed_into_what_is_others(tmp_path):
    """A candidate that could not write there must not have us do it."""
    others, private = tmp_path / "others", tmp_path / "private"
    for folder in (others, private / "home" / "cache"):
        folder.mkdir(parents=True)
    leftovers = LeftoverFiles([private / "home"])
    (others / "precious").write_text("1")
    (private / "home" / "cache").rmdir()
    (private / "home" / "cache").symlink_to(others)
    (private / "home" / "new").symlink_to(others)
    assert not leftovers.remove()
    (private / "home").rename(private / "moved")
    (private / "home").symlink_to(others)
    assert not leftovers.remove()
    assert (others / "precious").exists()


def test_folders_nested_without_end_are_said_and_break_nothing(tmp_path):
    leftovers = LeftoverFiles([tmp_path])
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    try:
        assert leftovers.remove() is (not (tmp_path / "d").exists())
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_folders_are_seen_as_a_process_sees_them(tmp_path):
    (tmp_path / "home").mkdir()
    leftovers = LeftoverFiles([tmp_path / "home"], Path("/proc/self/root"))
    (tmp_path / "home" / "new").write_text("1")
    assert leftovers.remove()
    assert not (tmp_path / "home" / "new").exists()


def test_shared_memory_is_attributed_to_who_ran():
    names = {"old"}
    shared = SharedMemoryLeftovers(lambda: frozenset(names))
    names.add("a")
    shared.note(["one"])
    names.add("b")
    shared.note(["two"])
    names.remove("b")
    names.add("c")
    shared.note(["three", "four"])

    assert shared.unclean() == {"one", "three", "four"}


def test_shared_memory_of_this_machine_can_be_read():
    assert isinstance(read_shared(), frozenset)
