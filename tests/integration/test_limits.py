"""Limits as outcomes: each is told apart from the others, and from a machine that has nothing left."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from process_support import mark
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, Settings, Submission
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.integrity.process_faults import machinery_fault
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.check.shortage_attribution import charged, read_supply, short_of
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.candidate.candidate_model import CandidateId
from codeflash_parallel.result.check_evidence import FailedTest
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits

__all__ = ["mark"]

MIB = 1 << 20
DEFAULT = "import resource, signal, sys\n"


def python(code: str, *arguments: str, mark: str, **limits: float) -> ChildCommand:
    return ChildCommand(
        argv=(sys.executable, "-I", "-S", "-c", code, *arguments),
        cwd=Path("/"),
        environment={"MARK": mark},
        limits=ProcessLimits(**{"wall_s": 30.0, **limits}),
    )


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group that grants 48 MiB; skip with the machine's words where none can be made."""
    name = f"codeflash-parallel-{uuid.uuid4().hex[:8]}"
    for root, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup") / root / name
        try:
            group.mkdir()
        except OSError as error:
            reason = str(error)
            continue
        try:
            (group / limit).write_text(str(48 * MIB))
            if (group / "memory.swap.max").exists():
                (group / "memory.swap.max").write_text("0")
        except OSError as error:
            reason = str(error)
            group.rmdir()
            continue
        yield group
        group.rmdir()
        return
    pytest.skip(f"no memory control group: {reason}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    mounted = []

    def mount(options: str) -> Path:
        folder = tmp_path / "disk"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"mount: {done.stderr.strip() or done.stdout.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


#: What a process does, and what becomes of it.
ENDS = {
    "computes for too long": ("while True: pass", {"cpu_s": 0.2}, Code.TOO_SLOW, "CPU deadline"),
    "reaches the kernel's CPU limit": (
        DEFAULT + "resource.setrlimit(resource.RLIMIT_CPU, (1, 2))\nwhile True: pass",
        {},
        Code.CPU_LIMIT,
        "SIGXCPU",
    ),
    "waits": ("import signal; signal.pause()", {"wall_s": 0.2}, Code.TIMEOUT, "wall deadline"),
    "writes too large a file": (
        DEFAULT
        + "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        + "import tempfile; file = tempfile.TemporaryFile(buffering=0); file.seek(4096); file.write(b'x')",
        {},
        Code.DISK_LIMIT,
        "SIGXFSZ",
    ),
    "hoards": (
        "hoard = bytearray(200_000_000)\nimport signal; signal.pause()",
        {"memory_bytes": 100 * MIB},
        Code.OUT_OF_MEMORY,
        "MiB resident",
    ),
    "is killed while it hoards": (
        "import os\nhoard = bytearray(200_000_000); os.kill(os.getpid(), 9)",
        {"memory_bytes": 100 * MIB},
        Code.OUT_OF_MEMORY,
        "MiB resident",
    ),
    "segfaults": ("import os; os.kill(os.getpid(), 11)", {}, Code.CRASHED, "SIGSEGV"),
    "aborts": ("import os; os.abort()", {}, Code.CRASHED, "SIGABRT"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", {}, Code.INFRA_KILLED, "SIGKILL"),
}


@pytest.mark.anyio
@pytest.mark.engine
@pytest.mark.parametrize("end", ENDS)
async def test_each_end_has_its_own_code(mark: str, end: str) -> None:
    program, limits, code, words = ENDS[end]
    async with open_launcher() as launcher:
        done = await launcher.run(python(program, mark=mark, **limits))
    fault = machinery_fault(RunnerSession(report=RunnerReport(), exit=done))
    assert fault is not None
    assert (fault.code, words in fault.reason) == (code, True), fault


@pytest.mark.anyio
@pytest.mark.engine
async def test_what_the_kernel_kills_for_want_of_memory_is_the_machine_s(
    mark: str, memory_group: Path
) -> None:
    program = "import sys\nopen(sys.argv[1], 'w').write('0')\nhoard = bytearray(200_000_000)"
    async with open_launcher() as launcher:
        done = await launcher.run(python(program, str(memory_group / "cgroup.procs"), mark=mark))
    fault = machinery_fault(RunnerSession(report=RunnerReport(), exit=done))
    assert fault is not None
    assert fault.code is Code.INFRA_MEMORY, done


@pytest.mark.anyio
@pytest.mark.engine
async def test_who_kills_himself_has_crashed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    code = "import os\n\n\ndef total(values):\n    os.kill(os.getpid(), 9)\n"
    settings = Settings(functions=("shop/sums.py::total",), cache_dir=str(tmp_path / "cache"))
    one = Submission(id=CandidateId("killed"), content=Replacement(code=code))
    async with Evaluator(project, settings) as evaluator:
        result = await evaluator.evaluate([one], race=RaceMode.CHECK)
    (killed,) = result.candidates
    assert (killed.status, killed.code) == (CandidateStatus.REJECTED, Code.CRASHED), killed.reason
    assert "SIGKILL" in killed.reason
    assert "3 attempts" in killed.reason


def refused(folder: Path, size: int) -> CheckOutcome:
    """Write until the file system refuses, and fail as a test would."""
    try:
        (folder / "flood").write_bytes(bytes(size))
    except OSError as error:
        failure = FailedTest(id="t", phase="call", message=f"OSError: {error}")
        return CheckOutcome(code=Code.TESTS_FAILED, reason="t fails", failures=(failure,))
    raise AssertionError("the disk is larger than it should be")


def judged(outcome: CheckOutcome, folder: Path, since_ns: int) -> Code:
    short = short_of(outcome)
    assert short is not None
    return charged(outcome, short, read_supply(folder, since_ns, 0)).code


def test_who_fills_a_real_disk_is_charged_and_who_finds_it_full_is_not(
    small_disk: Callable[[str], Path],
) -> None:
    disk = small_disk("size=48m")
    slot, other = disk / "slot", disk / "other"
    slot.mkdir()
    other.mkdir()
    (slot / "source.py").write_bytes(bytes(MIB))
    since_ns = _settled(slot)
    assert judged(refused(slot, 100 * MIB), slot, since_ns) is Code.DISK_LIMIT
    (slot / "flood").unlink()
    with pytest.raises(OSError):
        (other / "flood").write_bytes(bytes(100 * MIB))
    assert judged(refused(slot, 100 * MIB), slot, since_ns) is Code.INFRA_DISK


def test_inodes_are_disk_too(small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("size=48m,nr_inodes=300")
    since_ns = _settled(disk)
    with pytest.raises(OSError) as refusal:
        touch_many(disk)
    failure = FailedTest(id="t", phase="call", message=f"OSError: {refusal.value}")
    outcome = CheckOutcome(code=Code.TESTS_FAILED, reason="t fails", failures=(failure,))
    assert judged(outcome, disk, since_ns) is Code.DISK_LIMIT


def touch_many(folder: Path) -> None:
    for number in range(400):
        (folder / str(number)).touch()


def _settled(folder: Path) -> int:
    """Return a time that is later than every change so far, in the file system's clock, which ticks slowly."""
    probe = folder / "probe"
    before_ns = time.time_ns()
    while True:
        probe.touch()
        if (now_ns := probe.stat().st_ctime_ns) > before_ns:
            break
    probe.unlink()
    return now_ns
