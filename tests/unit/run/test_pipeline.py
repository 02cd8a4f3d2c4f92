"""Ids of runs; the order of the steps is in the acceptance tests."""

from __future__ import annotations

import re

from codeflash_parallel.run.pipeline import new_run_id


def test_ids_of_runs_name_their_second_and_differ():
    ids = {new_run_id() for _ in range(50)}

    assert len(ids) == 50
    assert all(re.fullmatch(r"\d{8}-\d{6}-[0-9a-f]{6}", one) for one in ids)
