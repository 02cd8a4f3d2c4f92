"""Folders that together hold everything but the hidden ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel._runner.sandbox import landlock, syscalls


def test_neighbours_of_what_is_hidden_are_named(tmp_path: Path) -> None:
    for name in ("hidden", "beside", "deep/hidden", "deep/beside"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "hidden")
    hidden = [str(tmp_path / "hidden"), str(tmp_path / "deep/hidden")]
    found = {path for path in landlock.around(hidden, ["/seen"]) if path.startswith(f"{tmp_path}/")}
    assert found == {f"{tmp_path}/beside", f"{tmp_path}/deep/beside"}
    assert "/seen" in landlock.around(hidden, ["/seen"])
    assert "/dev" not in landlock.around(hidden, [])


@pytest.mark.parametrize(("version", "more"), [(1, 0), (2, 1 << 13), (3, 1 << 13 | 1 << 14)])
def test_only_rights_that_the_kernel_knows_are_denied(version: int, more: int) -> None:
    assert landlock.writes(version) == landlock.writes(1) | more


def test_the_version_is_a_number() -> None:
    assert syscalls.landlock_abi() >= 0
