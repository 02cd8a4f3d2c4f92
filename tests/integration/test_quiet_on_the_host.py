"""Quiet on the host: timed sections are alone, checks are together, and who dies is out."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from codeflash_parallel import Evaluator
from codeflash_parallel.config.environment import QUIET_VARIABLE, SLOT_VARIABLE
from codeflash_parallel.process import host_lock
from codeflash_parallel.process.host_lock import HostLock, host_quiet, token_holder
from codeflash_parallel.queue.daemon.daemon import ServeOptions, open_daemon
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

HOLDER = """
import anyio, os, sys
from codeflash_parallel.process.host_lock import host_quiet

async def main():
    quiet = host_quiet(os.environ)
    async with getattr(quiet, sys.argv[1])():
        print("held", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


#: What is said when one waits no longer.
GOES_ON = "whoever has this machine to itself does not let go; we go on beside it"


@contextmanager
def held_elsewhere(folder: Path, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Have another process hold the lock of a folder."""
    command = [sys.executable, "-c", HOLDER, kind]
    environment = {**os.environ, QUIET_VARIABLE: str(folder)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder


class Room:
    """Who is inside, by kind, and whether that was ever wrong."""

    def __init__(self) -> None:
        self.checks = self.timed = self.most_checks = 0
        self.wrong = False

    async def check(self, quiet: HostLock) -> None:
        async with quiet.shared():
            self.checks += 1
            self.most_checks = max(self.most_checks, self.checks)
            self.wrong |= self.timed > 0
            await anyio.sleep(0.002)  # gives the others a chance to be wrong
            self.checks -= 1

    async def race(self, quiet: HostLock) -> None:
        async with quiet.exclusive():
            self.timed += 1
            self.wrong |= self.timed > 1 or self.checks > 0
            await anyio.sleep(0.002)
            self.timed -= 1


def overlaps(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


async def test_what_is_timed_is_alone(tmp_path: Path) -> None:
    room, quiets = Room(), [HostLock(tmp_path) for _ in range(4)]

    async with anyio.create_task_group() as tasks:
        for number in range(24):
            kind = room.race if number % 4 == 0 else room.check
            tasks.start_soon(kind, quiets[number % len(quiets)])

    assert not room.wrong
    assert room.most_checks > 1
    found = [quiet.take_intervals() for quiet in quiets]
    timed = [interval for one in found for interval in one.exclusive]
    checks = [interval for one in found for interval in one.shared]
    assert (len(timed), len(checks)) == (6, 18)
    for number, one in enumerate(timed):
        assert not any(overlaps(one, other) for other in (*checks, *timed[:number]))
    assert quiets[0].take_intervals().shared == ()


async def test_who_is_to_be_timed_goes_before_later_checks(tmp_path: Path) -> None:
    quiet, order = HostLock(tmp_path), []
    waits = anyio.Event()

    async def race() -> None:
        async with HostLock(tmp_path, lambda why: waits.set() if "checks" in why else None).exclusive():
            order.append("race")

    async def late_check() -> None:
        async with quiet.shared():
            order.append("check")

    async with anyio.create_task_group() as tasks, quiet.shared():
        tasks.start_soon(race)
        await waits.wait()
        tasks.start_soon(late_check)
        await anyio.sleep(0.02)  # the late check could enter now, were it not for the race
        assert order == []
    assert order == ["race", "check"]


async def test_waiting_is_told(tmp_path: Path) -> None:
    said: list[str] = []

    async def check() -> None:
        async with HostLock(tmp_path, said.append).shared():
            pass

    async with anyio.create_task_group() as tasks, HostLock(tmp_path).exclusive():
        tasks.start_soon(check)
        await anyio.sleep(0.01)
        assert said == ["something is timed on this machine"]
    assert said == ["something is timed on this machine", ""]


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
async def test_the_death_of_a_holder_lets_the_others_in(tmp_path: Path, kind: str) -> None:
    quiet = host_quiet({QUIET_VARIABLE: str(tmp_path)})
    with held_elsewhere(tmp_path, kind) as holder:
        with anyio.move_on_after(0.05) as scope:
            async with quiet.exclusive():
                pytest.fail("it is not free")
        assert scope.cancelled_caught
        holder.kill()
    with anyio.fail_after(30):
        async with quiet.exclusive():
            pass


async def test_a_race_that_does_not_get_its_turn_is_told_who_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, said = {QUIET_VARIABLE: str(tmp_path)}, []
    monkeypatch.setattr(host_lock, "PATIENCE_S", 0.02)
    quiet = host_quiet(environment, said.append)
    assert token_holder(environment) == ""
    with held_elsewhere(tmp_path, "exclusive") as holder:
        assert token_holder(environment) == f"process {holder.pid}"
        with pytest.raises(EnvironmentFault, match=f"process {holder.pid}") as fault:
            async with quiet.exclusive():
                pytest.fail("it is not free")
        holder.kill()
    assert fault.value.code == "BENCHMARK_TOKEN_BUSY"
    assert said == ["another race has this machine", ""]
    async with quiet.exclusive():
        assert token_holder(environment) == f"process {os.getpid()}"
    async with quiet.shared():
        assert token_holder(environment) == ""


async def test_it_is_free_again_after_an_error(tmp_path: Path) -> None:
    for kind in ("shared", "exclusive"):
        with pytest.raises(KeyError):
            async with getattr(HostLock(tmp_path), kind)():
                raise KeyError(kind)
    with anyio.fail_after(30):
        async with HostLock(tmp_path).exclusive():
            pass


async def test_without_locks_one_enters_at_once() -> None:
    async with HostLock(None).exclusive(), HostLock(None).exclusive(), HostLock(None).shared():
        pass


# The host's


def test_users_of_a_host_share_its_files_and_may_name_others(tmp_path: Path) -> None:
    quiet = host_quiet({QUIET_VARIABLE: str(tmp_path)})
    assert isinstance(quiet, HostLock)
    names = sorted(tmp_path.iterdir())
    assert [path.suffix for path in names] == [".room", ".turn"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in names} == {0o644}
    space = Path("/proc/self/ns/net").stat().st_ino
    assert all(
        str(space) in path.name for path in names
    )  # a container with a network of its own is a host of its own


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:  # below pytest's own folders nobody else comes
        Path(name).chmod(0o1777)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_file_of_somebody_else_can_be_locked(open_to_all: Path) -> None:
    environment = {QUIET_VARIABLE: str(open_to_all)}
    ours = host_quiet(environment)

    async def lock() -> None:
        async with host_quiet(environment).exclusive():
            with anyio.move_on_after(0.05) as scope:
                async with ours.shared():
                    pytest.fail("it is not free")
            assert scope.cancelled_caught

    os.seteuid(12345)
    try:
        anyio.run(lock)
    finally:
        os.seteuid(0)


async def test_a_run_inside_of_a_check_does_not_wait_for_the_check(tmp_path: Path) -> None:
    environment = {QUIET_VARIABLE: str(tmp_path)}
    async with host_quiet(environment).shared():
        with anyio.fail_after(5):
            async with host_quiet({**environment, SLOT_VARIABLE: "1"}).exclusive():
                pass


async def test_who_holds_a_lock_for_ever_holds_up_nobody_for_ever(tmp_path: Path) -> None:
    said: list[str] = []
    async with HostLock(tmp_path).exclusive():
        with anyio.fail_after(5):
            async with HostLock(tmp_path, said.append, patience_s=0.02).shared():
                pass
    assert said == ["something is timed on this machine", GOES_ON, ""]


async def test_patience_is_one_for_all_blocks_until_the_locks_are_free_again(tmp_path: Path) -> None:
    said: list[str] = []
    quiet = HostLock(tmp_path, said.append, patience_s=0.02)
    async with HostLock(tmp_path).shared():
        for _ in range(3):
            async with quiet.exclusive():
                pass
            async with quiet.shared():
                pass
        assert (len(said), said.count(GOES_ON)) == (3, 1)
    async with quiet.exclusive():  # free again
        pass
    async with HostLock(tmp_path).shared(), quiet.exclusive():
        assert said.count(GOES_ON) == 2


async def test_checks_wait_once_for_a_race_that_is_stopped(tmp_path: Path) -> None:
    said: list[str] = []
    quiet = HostLock(tmp_path, said.append, patience_s=0.02)
    async with HostLock(tmp_path).exclusive():
        for _ in range(3):
            async with quiet.shared():
                pass
        assert said == ["something is timed on this machine", GOES_ON, ""]
    async with quiet.shared():  # free again
        pass
    async with HostLock(tmp_path).exclusive(), quiet.shared():
        assert said.count(GOES_ON) == 2


@pytest.mark.parametrize("named", ["none", "file", "file/below", "relative"])
def test_a_folder_that_is_named_and_cannot_be_used_is_refused(tmp_path: Path, named: str) -> None:
    (tmp_path / "file").touch()
    folder = named if named == "relative" else str(tmp_path / named)
    with pytest.raises(UsageError) as refused:
        host_quiet({QUIET_VARIABLE: folder})
    assert refused.value.code == "QUIET_UNUSABLE"
    assert folder in str(refused.value)
    assert QUIET_VARIABLE in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


async def test_nobody_starts_without_the_quiet_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(QUIET_VARIABLE, str(tmp_path / "none"))
    monkeypatch.delenv(SLOT_VARIABLE, raising=False)
    options = ServeOptions(folder=tmp_path / "queue", cache_dir=tmp_path / "cache")
    for start in (lambda: open_daemon(options), lambda: Evaluator(tmp_path)):
        with pytest.raises(UsageError, match=QUIET_VARIABLE) as refused:
            async with start():  # type: ignore[attr-defined]
                pytest.fail("it started")
        assert refused.value.code == "QUIET_UNUSABLE"
    assert not options.folder.exists()


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
async def test_locks_that_cannot_be_opened_any_more_are_told(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "locks"
    folder.mkdir()
    quiet = host_quiet({QUIET_VARIABLE: str(folder)})
    shutil.rmtree(folder)
    with pytest.raises(EnvironmentFault) as fault:
        async with getattr(quiet, kind)():
            pytest.fail("there is no lock")
    assert fault.value.code == "QUIET_UNUSABLE"


async def test_a_lock_of_a_file_that_was_removed_is_none(tmp_path: Path) -> None:
    quiet, entered = HostLock(tmp_path), anyio.Event()

    async def race() -> None:
        async with quiet.exclusive():
            entered.set()

    async with anyio.create_task_group() as tasks:
        async with quiet.shared():
            tasks.start_soon(race)
            await anyio.sleep(0.02)
            (tmp_path / "quiet.room").unlink()
            async with HostLock(tmp_path).shared():  # as whoever comes later sees it
                pass
        with anyio.fail_after(5):
            await entered.wait()


async def test_all_who_wait_say_so_once(tmp_path: Path) -> None:
    said: list[str] = []
    quiet = HostLock(tmp_path, said.append)

    async def check() -> None:
        async with quiet.shared():
            pass

    async with anyio.create_task_group() as tasks, HostLock(tmp_path).exclusive():
        for _ in range(3):
            tasks.start_soon(check)
        await anyio.sleep(0.01)
    assert said == ["something is timed on this machine", ""]
