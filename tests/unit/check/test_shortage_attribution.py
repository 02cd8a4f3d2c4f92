"""Who is to blame where a check got no more disk or memory."""

from __future__ import annotations

import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.dispatch.run_dispatch import ProcessUsage
from codeflash_parallel.check.shortage_attribution import (
    ROOM_BYTES,
    ROOM_FILES,
    ResourceShortage,
    Supply,
    charged,
    killed_by_itself,
    shared,
    short_of,
)
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import FailedTest, FirstDifference

NO_SPACE = "OSError: [Errno 28] No space left on device"
PLENTY = Supply(
    disk_bytes=1 << 40,
    files=1 << 20,
    taken_bytes=0,
    taken_files=0,
    memory_bytes=1 << 34,
    needed_bytes=1 << 28,
)


def failed(message: str, code: Code = Code.TESTS_FAILED) -> CheckOutcome:
    return CheckOutcome(
        code=code, reason="1 test fails: t", failures=(FailedTest(id="t", phase="call", message=message),)
    )


def supply(**changes: int) -> Supply:
    return Supply(**{name: getattr(PLENTY, name) for name in Supply.__slots__} | changes)


@pytest.mark.parametrize(
    ("message", "short"),
    [
        (NO_SPACE, ResourceShortage.DISK),
        ("OSError: [Errno 122] Disk quota exceeded", ResourceShortage.DISK),
        ("OSError: [Errno 27] File too large: 'x'", ResourceShortage.DISK),
        ("MemoryError: ", ResourceShortage.MEMORY),
        ("E   numpy._core._exceptions._ArrayMemoryError: Unable to allocate", ResourceShortage.MEMORY),
        ("OSError: [Errno 12] Cannot allocate memory", ResourceShortage.MEMORY),
        ("AssertionError: assert 'MemoryError' == 'x'", None),
        ("AssertionError: 28 == 12", None),
    ],
)
def test_the_kernel_s_words_are_understood(message: str, short: ResourceShortage | None) -> None:
    assert short_of(failed(message)) is short


def test_they_are_found_wherever_a_check_says_them() -> None:
    difference = FirstDifference(target="t", test="", call=0, inputs="", expected="1", got=NO_SPACE)
    assert (
        short_of(CheckOutcome(code=Code.VALUE_DIFFERS, reason="", difference=difference))
        is ResourceShortage.DISK
    )
    assert short_of(CheckOutcome(code=Code.INFRA_SLOT, reason=NO_SPACE)) is ResourceShortage.DISK


@pytest.mark.parametrize("code", [Code.OK, Code.OUT_OF_MEMORY, Code.TIMEOUT, Code.INFRA_KILLED])
def test_what_is_no_matter_of_shortage_stays_what_it_is(code: Code) -> None:
    assert short_of(failed(NO_SPACE, code)) is None


def test_beside_others_nobody_is_charged() -> None:
    assert shared(failed(NO_SPACE), ResourceShortage.DISK).code is Code.INFRA_DISK
    assert shared(failed("MemoryError"), ResourceShortage.MEMORY).code is Code.INFRA_MEMORY


def test_a_machine_with_room_makes_it_the_candidate_s_limit() -> None:
    disk, memory = (
        charged(failed(NO_SPACE), ResourceShortage.DISK, PLENTY),
        charged(failed(""), ResourceShortage.MEMORY, PLENTY),
    )
    assert (disk.code, memory.code) == (Code.DISK_LIMIT, Code.OUT_OF_MEMORY)
    assert "1 test fails" in disk.reason


@pytest.mark.parametrize("full", [{"disk_bytes": ROOM_BYTES - 1}, {"files": ROOM_FILES - 1}])
def test_a_full_disk_charges_nobody(full: dict[str, int]) -> None:
    assert charged(failed(NO_SPACE), ResourceShortage.DISK, supply(**full)).code is Code.INFRA_DISK


def test_who_filled_the_disk_itself_is_charged() -> None:
    bytes_ = charged(
        failed(NO_SPACE), ResourceShortage.DISK, supply(disk_bytes=0, taken_bytes=2 * ROOM_BYTES)
    )
    files = charged(failed(NO_SPACE), ResourceShortage.DISK, supply(files=0, taken_files=2 * ROOM_FILES))
    assert (bytes_.code, files.code) == (Code.DISK_LIMIT, Code.DISK_LIMIT)
    assert "wrote 32 MiB" in bytes_.reason


def test_a_machine_without_memory_charges_nobody() -> None:
    poor = supply(memory_bytes=PLENTY.needed_bytes - 1)
    assert charged(failed("MemoryError"), ResourceShortage.MEMORY, poor).code is Code.INFRA_MEMORY


def test_who_is_killed_each_time_with_plenty_of_memory_left_does_so_himself() -> None:
    killed = CheckOutcome(
        code=Code.INFRA_KILLED,
        reason="It was ended by SIGKILL.",
        killed=True,
        used=ProcessUsage(rss_bytes=1 << 30),
    )
    found = killed_by_itself(killed, PLENTY, 3)
    assert found.code is Code.CRASHED
    assert found.reason.startswith("It was ended by SIGKILL. So it was in each of 3 attempts")
    for left in (1 << 30, (1 << 31) - 1):
        assert killed_by_itself(killed, supply(memory_bytes=left), 3) is killed
    assert killed_by_itself(killed, supply(memory_bytes=1 << 31, needed_bytes=1 << 31), 3) is killed
