"""What is put back where a folder above it is covered."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel._runner.sandbox import mount_view


def test_what_lies_below_a_cover_or_is_writable_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mount_view.syscalls, "copy_mounts", lambda path: f"copy of {path}")
    cover, below, beside, writable = (str(tmp_path / name) for name in ("a", "a/b", "c", "d"))
    for path in (cover, below, beside, writable):
        Path(path).mkdir()
    view = mount_view.MountView(1 << 20, 100)
    view.cover([cover, str(tmp_path / "absent")])
    view.keep([below, beside])
    view.keep([writable], writable=True)
    view.keep([writable])
    elsewhere = str(tmp_path / "absent" / "seen")
    view.keep([elsewhere], writable=True, source=beside)
    assert view._copies() == {
        elsewhere: (f"copy of {beside}", True, True),
        below: (f"copy of {below}", True, False),
        writable: (f"copy of {writable}", True, True),
    }
