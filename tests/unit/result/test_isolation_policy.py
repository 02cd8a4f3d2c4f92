from __future__ import annotations

import pytest

from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy, reached_limits


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("E   MemoryError", ("--memory-limit",)),
        ("OSError: [Errno 24] Too many open files: 'a'", ("--open-files-limit",)),
        ("RuntimeError: can't start new thread", ("--processes-limit",)),
        ("OSError: [Errno 27] File too large", ("--file-size-limit",)),
        ("BlockingIOError: [Errno 11]\nE MemoryError", ("--memory-limit", "--processes-limit")),
        ("AssertionError: assert 1 == 2", ()),
    ],
)
def test_failures_name_the_limits_that_they_met(words: str, flags: tuple[str, ...]) -> None:
    assert reached_limits(words) == flags


def test_only_a_sandbox_without_granted_rights_is_closed() -> None:
    sandbox = IsolationPolicy(level=IsolationLevel.SANDBOX)
    assert sandbox.is_closed
    for open_one in (
        IsolationPolicy(level=IsolationLevel.LANDLOCK),
        IsolationPolicy(level=IsolationLevel.SANDBOX, network=True),
        IsolationPolicy(level=IsolationLevel.SANDBOX, writable=("/data",)),
    ):
        assert not open_one.is_closed
