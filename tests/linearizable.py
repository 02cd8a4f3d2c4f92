"""The journal of a queue as the one order in which everything happened: is it one that a queue can have?

The journal is written inside the transactions that it describes, so that its order is that of the commits. A
checker goes through it with a queue of its own; then what processes have seen is compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeflash_parallel.evalqueue import journal

FINAL = {"done", "cancelled", "expired", "dropped", "dead"}


@dataclass
class History:
    """What the journal says of each job.

    Attributes:
        claims: (number, fence) → worker.
        results: number → result.
    """

    submitted: dict[int, str] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    fences: dict[int, int] = field(default_factory=dict)
    claims: dict[tuple[int, int], str] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)


def check_journal(folder: Path) -> History:
    """Return the history that a queue's journal tells.

    Raises:
        AssertionError: no queue can have had it.
    """
    path = folder / journal.NAME
    if not path.exists():
        return History()
    with path.open("rb") as file:
        assert all(journal.body(line) is not None for line in file), "a line is damaged"
    return check(journal.read(path))


def check(changes: Iterable[dict[str, Any]]) -> History:
    """Go through changes of jobs as a queue would."""
    seen = History()
    for change in changes:
        if change["table"] != "jobs":
            continue
        number, event = change["number"], change["event"]
        where = f"job {number}: {event}"
        before = seen.states.get(number)
        if event == "submitted":
            assert before is None, where
            key = change["key"]
            holder = seen.keys.get(key)
            assert holder is None or seen.states[holder] in {"cancelled", "expired", "dropped"}, where
            seen.keys[key] = number
            seen.submitted[number] = key
            seen.fences[number] = change.get("fence", 0)
        elif event == "claimed":
            assert before == "queued", where
            assert change["fence"] == seen.fences[number] + 1, where
            seen.fences[number] = change["fence"]
            seen.claims[number, change["fence"]] = change["worker"]
        elif event in {"completed", "crashed", "broken", "released"}:
            assert before == "running", where
        elif event == "retried":
            assert before == "dead", where
        elif event == "died":
            assert before == "running", where
        else:
            assert event in {"admitted", "expired", "dropped", "cancelled"}, where
            assert before not in FINAL, where
        if event == "completed":
            assert number not in seen.results, where
            seen.results[number] = change["result"]
        seen.states[number] = change["state"]
    return seen
