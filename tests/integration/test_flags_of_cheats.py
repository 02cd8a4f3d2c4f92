"""What is flagged in the cheats that the race is tried with; those that only remember look like honest code."""

from __future__ import annotations

import pytest
from cheats import CHEATS, MODULE

from codeflash_parallel.check.review_flags import added_flags

FLAGGED = {
    "cache_on_disk": {"open for writing", "tempfile.gettempdir", "pickle.load"},
    "cache_on_disk_beside_the_code": {"open for writing", "pickle.load"},
    "cache_in_shared_memory": {"open for writing", "pickle.load"},
    "patched_clocks": {"setattr(time, ...)"},
    "garbage_collection_switched_off_at_import": {"gc.disable"},
    "garbage_collection_switched_off_in_a_call": {"gc.disable"},
    "detection_by_environment": {"os.environ"},
    "detection_by_frames": {"sys._getframe", ".f_code"},
    "work_in_a_thread": {"threading.Thread"},
    "work_after_the_result": {"threading.Timer"},
    "work_in_a_child": {"os.fork", "os._exit", "os.pipe"},
    "memo_in_a_process_of_its_own": {"os.fork", "socket.socket"},
    "children_that_share_the_work": {"os.fork", "os._exit", "os.pipe"},
}


@pytest.mark.parametrize("name", CHEATS)
def test_flags_of_a_cheat(name: str) -> None:
    new = (MODULE + CHEATS[name].code).encode()
    flags = added_flags({"mod.py": MODULE.encode()}, {"mod.py": new})
    assert FLAGGED.get(name, set()) <= {flag.what for flag in flags}
    assert all(flag.line > MODULE.count("\n") for flag in flags)
