"""Mounts that a command, or a test, has for itself: read-only views of folders, small file systems."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

#: Set by `nox -s read_only`, which runs the tests in a mount namespace of their own.
READ_ONLY = os.environ.get("CODEFLASH_TEST_READ_ONLY") == "1"
_mounted: set[Path] = set()


def mounting(commands: Sequence[str]) -> tuple[str, ...]:
    """Return what starts a command in a mount namespace of its own, in which these were run before."""
    script = " && ".join([*commands, 'cd "$PWD"', 'exec "$@"'])  # the folder was entered below the mounts
    options = ("-m",) if os.geteuid() == 0 else ("-U", "-r", "-m")
    return ("unshare", *options, "--propagation", "private", "sh", "-c", script, "sh")


def read_only(path: Path) -> str:
    """Return the shell command that makes a folder read-only, at any right."""
    name = shlex.quote(str(path))
    return f"mount --bind {name} {name} && mount -o remount,bind,ro {name}"


def small_disk(path: Path, size: str) -> str:
    """Return the shell command that puts a small, empty file system at a folder."""
    return f"mount -t tmpfs -o mode=1777,{size} tmpfs {shlex.quote(str(path))}"


def why_no_mounts(folder: Path) -> str:
    """Return what the machine says against mounts in a namespace; empty: they work."""
    return said_against([*mounting([small_disk(folder, "size=64k"), read_only(folder)]), "true"])


def said_against(command: Sequence[str]) -> str:
    """Return what a command that should work says when it does not; empty: it works."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not installed"
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    return f"{command[0]}: {done.stderr.strip()[-200:] or done.returncode}" if done.returncode else ""


@contextmanager
def kept_read_only(*folders: Path) -> Iterator[None]:
    """Keep folders read-only in this process's mount namespace, and show that they are."""
    new = sorted({folder for folder in folders if not _covered(folder)})
    with ExitStack() as stack:
        for folder in new:
            subprocess.run(["sh", "-c", read_only(folder)], check=True, capture_output=True)
            stack.callback(_unmount, folder)
            _mounted.add(folder)
            _must_refuse(folder)
        yield


def _covered(folder: Path) -> bool:
    return any(folder.is_relative_to(mounted) for mounted in _mounted)


def _unmount(folder: Path) -> None:
    _mounted.discard(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _must_refuse(folder: Path) -> None:
    """A mount that does not refuse would prove nothing."""
    probe, refused = folder / ".probe-of-a-read-only-mount", 0
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        refused = error.errno or 0
    assert refused == errno.EROFS, f"{folder} is mounted read-only: {os.strerror(refused)}"
