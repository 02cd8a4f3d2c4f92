from __future__ import annotations

import errno
import os
import resource

import pytest

from codeflash_parallel.process.launcher.launcher import start_launcher_process
from codeflash_parallel.process.machine import shortage_of
from codeflash_parallel.result.errors import EnvironmentFault


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def failed_import(cause: BaseException) -> ImportError:
    error = ImportError("Failed to initialize")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (os_error(errno.EMFILE), "TOO_FEW_DESCRIPTORS"),
        (os_error(errno.ENFILE), "TOO_FEW_DESCRIPTORS"),
        (os_error(errno.ENOMEM), "NO_MEMORY"),
        (MemoryError(), "NO_MEMORY"),
        (os_error(errno.EAGAIN), "TOO_FEW_PROCESSES"),
        (RuntimeError("can't start new thread"), "TOO_FEW_PROCESSES"),
        (os_error(errno.ENOSPC), "DISK_FULL"),
        (os_error(errno.EDQUOT), "DISK_FULL"),
        (os_error(errno.EFBIG), "DISK_FULL"),
        (failed_import(os_error(errno.EAGAIN)), "TOO_FEW_PROCESSES"),
    ],
)
def test_a_shortage_is_the_machines(error: BaseException, code: str) -> None:
    fault = shortage_of(error)
    assert fault is not None
    assert (fault.code, fault.exit_code) == (code, 4)
    assert "\n" not in fault.message
    assert fault.hint


@pytest.mark.parametrize(
    "error",
    [
        *(os_error(errno.EIO), os_error(errno.EINVAL), RuntimeError("another"), ValueError("no space")),
        *(ImportError("no module"), failed_import(ValueError("another"))),
    ],
)
def test_other_errors_are_none(error: BaseException) -> None:
    assert shortage_of(error) is None


def test_nothing_is_started_with_too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(EnvironmentFault, match="the limit is 64") as caught:
        start_launcher_process()
    assert caught.value.code == "TOO_FEW_DESCRIPTORS"
