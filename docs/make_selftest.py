"""Print the tables of `docs/reference/selftest.md` from what `selftest --all --json` said at each level.

    PYTHONPATH=tests python docs/make_selftest.py none=none.json sandbox=sandbox.json

A level may be named several times, for parts of the corpus.
"""

# ruff: noqa: INP001, T201 - a script that prints

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from selftest.entries import Entry, corpus
from selftest.table import most

Outcomes = Mapping[str, Mapping[str, Any]]

#: What must not be found.
BAD = ("ACCEPTED", "CREDITED", "ESCAPED", "no verdict")

#: What became of attacks that were caught.
CAUGHT = ("rejected", "blocked", "not credited")


#: Line of the table → what became of those that it counts.
_KINDS = {
    "wrong accepted": "ACCEPTED",
    "cheats credited": "CREDITED",
    "escaped": "ESCAPED",
    "not promised at this level": "not stopped",
    "raced on a machine too noisy to tell": "too noisy",
    "without a verdict": "no verdict",
    "refused before they ran, as the baseline was": "refused before it ran",
}


def main(arguments: Sequence[str]) -> None:
    """Print figures and tables."""
    levels: dict[str, dict[str, Mapping[str, Any]]] = {}
    for argument in arguments:
        level, _, path = argument.partition("=")
        said = json.loads(Path(path).read_text(encoding="utf-8"))
        levels.setdefault(level, {}).update({one["name"]: one for one in said["outcomes"]})
    print(table(("", *levels), figures(levels)))
    print()
    print(table(("catalogue", "attack", "fools", *levels), attacks(levels)))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def figures(levels: Mapping[str, Outcomes]) -> Iterator[list[str]]:
    """Yield a line of counts each."""
    counted = [Counter(one["became"] for one in _attacks(found) if _counts(one)) for found in levels.values()]
    honest = [
        Counter(one["became"] for one in found.values() if one["family"] == "honest")
        for found in levels.values()
    ]
    yield [
        "attacks that fooled a naive judge, or were not shown to one",
        *(str(sum(c.values()) - c["skipped"] - c["refused before it ran"]) for c in counted),
    ]
    yield ["of these stopped", *(str(sum(c[name] for name in CAUGHT)) for c in counted)]
    for name, word in _KINDS.items():
        yield [name, *(str(c[word]) for c in counted)]
    yield [
        "bound of wrong ones let through",
        *(_bound(sum(c[b] for b in BAD), sum(c[n] for n in CAUGHT + BAD)) for c in counted),
    ]
    yield [
        "did not fool anybody here",
        *(str(sum(not _counts(one) for one in _attacks(found))) for found in levels.values()),
    ]
    yield ["honest candidates", *(str(c["equivalent"] + c["REJECTED"]) for c in honest)]
    yield ["of these rejected", *(str(c["REJECTED"]) for c in honest)]
    yield [
        "bound of honest ones rejected",
        *(_bound(c["REJECTED"], c["equivalent"] + c["REJECTED"]) for c in honest),
    ]


def _attacks(found: Outcomes) -> list[Mapping[str, Any]]:
    return [one for one in found.values() if one["family"] != "honest"]


def _counts(one: Mapping[str, Any]) -> bool:
    return one["fooled"] is None or bool(one["fooled"]["by"])


def _bound(hits: int, tries: int) -> str:
    return f"{100 * most(hits, tries):.1f} %" if tries else ""


def attacks(levels: Mapping[str, Outcomes]) -> Iterator[list[str]]:
    """Yield a line for each attack that was tried, in the order of the corpus."""
    for entry in corpus():
        told = [found.get(entry.name) for found in levels.values()]
        if entry.is_attack and any(told):
            yield [
                f"{entry.family}: {entry.entry}",
                entry.name,
                _fools(told),
                *(_cell(entry, one) for one in told),
            ]


def _fools(told: Sequence[Mapping[str, Any] | None]) -> str:
    by = next((one["fooled"]["by"] for one in told if one and one["fooled"] and one["fooled"]["by"]), None)
    asked = any(one and one["fooled"] for one in told)
    return ", ".join(by) if by else "nobody here" if asked else "(not asked)"


def _cell(entry: Entry, one: Mapping[str, Any] | None) -> str:
    if one is None:
        return ""
    if one["became"] == "not stopped":
        return f"needs {entry.lowest}"
    return f"{one['code']} ({one['caught_by']})" if one["became"] == "rejected" else str(one["became"])


if __name__ == "__main__":
    main(sys.argv[1:])
