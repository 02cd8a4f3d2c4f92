"""The host lock: checks together, a race alone, and what is said where no locks can be had."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from codeflash_parallel.config.environment import QUIET_VARIABLE, SLOT_VARIABLE
from codeflash_parallel.process.host_lock import BUSY, HostLock, host_quiet, token_holder, why_not_quiet
from codeflash_parallel.result.errors import EnvironmentFault, UsageError


@pytest.mark.anyio
async def test_checks_are_together_and_a_race_waits_for_them(tmp_path: Path) -> None:
    told: list[str] = []
    checks, race = HostLock(tmp_path), HostLock(tmp_path, told.append)
    entered = anyio.Event()

    async def timed() -> None:
        async with race.exclusive():
            entered.set()

    async with anyio.create_task_group() as group, checks.shared(), HostLock(tmp_path).shared():
        group.start_soon(timed)
        await anyio.sleep(0.05)
        assert not entered.is_set()
        assert told == ["checks are still running on this machine"]
    assert told[-1] == ""
    (shared,), (exclusive,) = checks.take_intervals().shared, race.take_intervals().exclusive
    assert shared[1] <= exclusive[0]
    assert race.take_intervals().exclusive == ()


@pytest.mark.anyio
async def test_a_race_that_gets_no_turn_fails_and_names_the_other(tmp_path: Path) -> None:
    environment = {QUIET_VARIABLE: str(tmp_path)}
    async with host_quiet(environment).exclusive():
        holder = token_holder(environment)
        assert holder.startswith("process ")
        other = host_quiet(environment)
        other._patience_s = 0.02
        with pytest.raises(EnvironmentFault, match="Another benchmark") as caught:
            async with other.exclusive():
                pass
        assert caught.value.code == BUSY
        assert holder in caught.value.message
    assert token_holder(environment) == ""


@pytest.mark.anyio
async def test_a_check_that_waits_in_vain_goes_on_without_the_lock(tmp_path: Path) -> None:
    told: list[str] = []
    async with HostLock(tmp_path).exclusive(), HostLock(tmp_path, told.append, patience_s=0.02).shared():
        assert told[0] == "something is timed on this machine"
        assert any("go on beside it" in why for why in told)


@pytest.mark.anyio
async def test_inside_of_a_slot_nothing_is_locked() -> None:
    quiet = host_quiet({SLOT_VARIABLE: "1"})
    async with quiet.exclusive(), quiet.exclusive(), quiet.shared():
        pass
    assert quiet.take_intervals() == HostLock(None).take_intervals()


@pytest.mark.parametrize(
    ("folder", "why"), [("here", "not an absolute path"), ("/nowhere/at all", "no locks")]
)
def test_a_folder_without_locks_is_named(folder: str, why: str) -> None:
    environment = {QUIET_VARIABLE: folder}
    assert why in why_not_quiet(environment)
    with pytest.raises(UsageError, match=why) as caught:
        host_quiet(environment)
    assert caught.value.code == "QUIET_UNUSABLE"
