"""Checkouts of snapshots on a host, each made of a bundle once, with the environment that is made there."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from codeflash_parallel.hosts.cluster.host_job import HostJob
from codeflash_parallel.process.files import try_lock
from codeflash_parallel.result.candidate_model import name_of
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.cache_layout import CHECKOUTS, CacheHome, cache_faults, locked, remove_tree
from codeflash_parallel.workspace.git.git_client import find_repository, mirror_git
from codeflash_parallel.workspace.snapshot.mirror import ATTRIBUTES, Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

#: Checkouts that are kept on a host; each has a mirror, baselines and perhaps an environment of its own.
_KEPT = 4
#: How much of what a failing command said is told.
_SAID_CHARS = 1500
#: Longest time of a command that makes an environment, in seconds.
_LONGEST_S = 3600.0
#: How often it is looked whether the job is still wanted meanwhile.
_LOOK_S = 0.2
#: Longest wait for the end of such a command.
_END_S = 1.0
#: Held as long as such a command runs.
_preparing = threading.Lock()


def bundle_of(mirror: Mirror, snapshot: Snapshot) -> bytes:
    """Return all objects of a snapshot as a pack: a bundle without refs, which no mirror keeps. Blocking.

    Raises:
        GitFailed: the mirror has lost some.
    """
    objects = mirror.git.run("rev-list", "--objects", "--no-object-names", snapshot.commit)
    return mirror.git.run("pack-objects", "--stdout", "-q", stdin=objects)


@contextmanager
def checkout(
    cache: Path, job: HostJob, bundle: Callable[[], bytes], is_over: threading.Event
) -> Iterator[Path]:
    """Hold a checkout of a job's snapshot, made if there is none, and yield its root. Blocking.

    Args:
        cache: of this host.
        bundle: returns the bundle of the snapshot; called when it is needed.
        is_over: nobody wants the job any more: a command that makes the environment is killed.

    Raises:
        EnvironmentFault: `PREPARE_FAILED`, or a cache that is full or cannot be written.
    """
    folder = cache / CHECKOUTS / name_of(job.repository, job.snapshot.commit, job.prepare)
    root, done = folder / job.repository, folder / "done"
    with ExitStack() as stack:
        with cache_faults(cache):
            use = None
            while use is None:
                with locked(folder / "make.lock"):
                    if not done.exists():
                        remove_tree(root)
                        _write(root, job.snapshot, bundle())
                        if job.prepare:
                            _prepare(root / job.project, job.prepare, is_over)
                        done.touch()
                use = locked(folder / "use.lock", fcntl.LOCK_SH)
                if not done.exists():  # another job has removed it meanwhile
                    use.release()
                    use = None
            stack.enter_context(use)
            os.utime(done)
            _remove_old(cache)
        yield root


def end_preparing(is_over: threading.Event) -> None:
    """See that no command that makes an environment runs any more, nor begins. For the end of a process."""
    is_over.set()
    _preparing.acquire(timeout=_END_S)


def _write(root: Path, snapshot: Snapshot, pack: bytes) -> None:
    """Write the files of a snapshot into a new repository."""
    git_dir = root / ".git"
    git_dir.mkdir(parents=True)
    git = mirror_git(git_dir)
    git.run("init", "-q")
    git = git.having(GIT_WORK_TREE=root)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info" / "attributes").write_bytes(ATTRIBUTES)
    git.run("index-pack", "--stdin", stdin=pack)
    git.run("update-ref", "HEAD", snapshot.commit)
    git.run("read-tree", snapshot.tree)
    git.run("checkout-index", "-a", "-f", "-q")


def _prepare(project: Path, command: str, is_over: threading.Event) -> None:
    until_s = time.monotonic() + _LONGEST_S
    with _preparing, TemporaryFile() as said:
        child = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=project,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        while child.poll() is None and not is_over.wait(_LOOK_S) and time.monotonic() < until_s:
            pass
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_CHARS))
        words = said.read().decode(errors="replace").strip()
    if child.returncode:
        message = f"--prepare {command!r} ended with status {child.returncode}: {words}"
        raise EnvironmentFault("PREPARE_FAILED", message)


def _remove_old(cache: Path) -> None:
    """Remove the checkouts that were used least lately and are not in use, with what was kept of them."""
    used: list[tuple[float, Path]] = []
    for mark in (cache / CHECKOUTS).glob("*/done"):
        with suppress(FileNotFoundError):  # another job removes it, too
            used.append((mark.stat().st_mtime, mark.parent))
    for _, folder in sorted(used, reverse=True)[_KEPT:]:
        lock = try_lock(folder / "use.lock")
        if lock is None:
            continue
        with lock:
            (folder / "done").unlink(missing_ok=True)  # first: who waits for the lock sees that it is gone
            for root in folder.glob("*/.git"):
                remove_tree(CacheHome(path=cache / find_repository(root.parent).key).path)
            remove_tree(folder)
