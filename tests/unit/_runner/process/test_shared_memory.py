"""Semaphores without a name, and all other memory that is shared."""

from __future__ import annotations

import mmap
import multiprocessing
import os

from codeflash_parallel._runner.process import shared_memory


def test_a_fork_has_a_semaphore_of_its_own_which_its_children_share() -> None:
    before, _ = shared_memory.shared()
    lock = multiprocessing.get_context("fork").Lock()
    pages = [page for page in shared_memory.shared()[0] if page not in before]
    assert [page.size for page in pages] == [mmap.PAGESIZE]

    with lock:
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                status = _status_in_a_fork(lock, pages)
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert not lock.acquire(block=False)
    assert lock.acquire(block=False)


def _status_in_a_fork(lock, pages) -> int:
    """Return 0 where a lock that is held is held in a fork, too, and what the fork's child does with it is seen."""
    shared_memory.separate(pages)
    again, _ = shared_memory.shared()
    if lock.acquire(block=False) or not {*pages} <= {*again}:
        return 1
    pid = os.fork()
    if pid == 0:
        lock.release()
        os._exit(0)
    os.waitpid(pid, 0)
    return 0 if lock.acquire(block=False) else 2


def test_what_others_can_come_to_is_shared() -> None:
    _, before = shared_memory.shared()
    assert not before
    with mmap.mmap(-1, mmap.PAGESIZE):
        assert shared_memory.shared()[1]
    # Its name is for children that are spawned: it is removed in the end only.
    named = multiprocessing.get_context("spawn").Lock()
    assert shared_memory.shared()[1]
    del named
    assert not shared_memory.shared()[1]
