"""Judge the same candidates through servers and in new processes, and say where the verdicts differ."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutations
import rewrites
from harness import Finished, Place

#: One candidate of a manifest: its id, and the text of each changed file (`None`: removed).
Patch = tuple[str, Mapping[str, str | None]]
#: The race is not in question here: whoever was raced was found equivalent.
_RACED = frozenset({"won", "tied", "lost"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One candidate, both ways.

    Attributes:
        warm, new_process: status and code.
        served: the point that the warm way says it used, and why no later one.
        reasons: of both.
    """

    id: str
    warm: str
    new_process: str
    served: str
    reasons: tuple[str, str]

    @property
    def agrees(self) -> bool:
        return self.warm == self.new_process


def both_ways(place: Place, *arguments: str) -> list[Judged]:
    """Run one command with and without `--new-process`; hold both documents against each other."""
    return judged(*finished_both_ways(place, *arguments))


def finished_both_ways(place: Place, *arguments: str) -> tuple[Finished, Finished]:
    """Run one command without and with `--new-process`."""
    before = shutil.copytree(place.state, place.state.with_name("state before"))
    warm = place.run(*arguments)
    # What the first command's tests have kept there is nothing that the second one's may find.
    shutil.rmtree(place.state)
    before.rename(place.state)
    return warm, place.run(*arguments, "--new-process")


def judged(served: Finished, alone: Finished) -> list[Judged]:
    """Hold the documents of both ways against each other."""
    warm, new_process = served.document, alone.document
    assert run_verdict(warm) == run_verdict(new_process), (run_verdict(warm), run_verdict(new_process))
    pairs = zip(warm["candidates"], new_process["candidates"], strict=True)
    return [
        Judged(
            id=one["id"],
            warm=verdict(one),
            new_process=verdict(other),
            served=f"{one['served']}: {one['served_why']}",
            reasons=(one["reason"], other["reason"]),
        )
        for one, other in pairs
    ]


def assert_agreement(found: Sequence[Judged]) -> None:
    apart = [judged for judged in found if not judged.agrees]
    assert not apart, "\n".join(map(str, apart))


def verdict(candidate: Mapping[str, Any]) -> str:
    """Return status and code of a candidate as one word."""
    status = candidate["status"]
    return "equivalent" if status in _RACED else f"{status}/{candidate['code']}"


def run_verdict(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a whole run says, the race aside."""
    error = document["error"]
    fault = (error["family"], error["code"]) if error else None
    return fault, document["complete"], document["quarantined"], document["tests_selected"]


def write_manifest(path: Path, patches: Sequence[Patch]) -> Path:
    lines = [json.dumps({"id": name, "edits": dict(edits)}) for name, edits in patches]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def random_patches(project: Path, targets: Sequence[str], count: int, seed: int) -> list[Patch]:
    """Make patches: of a target's body alone, or of one to three changes of any kind in its package.

    Args:
        project: folder whose files are changed; it is only read.
        targets: `package/module.py::name`; only files below the package are changed.
        count: how many patches.
        seed: the same seed makes the same patches.
    """
    package = targets[0].partition("/")[0]
    texts = {
        str(path.relative_to(project)): path.read_text(encoding="utf-8")
        for path in sorted((project / package).rglob("*.py"))
    }
    rng = random.Random(seed)
    made = [
        _patch(texts, package, rng) if number % 2 else _body(texts, targets, rng) for number in range(count)
    ]
    return [(f"p{seed}-{number}", edits) for number, edits in enumerate(made)]


def _body(texts: Mapping[str, str], targets: Sequence[str], rng: random.Random) -> dict[str, str | None]:
    """Change the body of one target, for better or worse."""
    path, _, name = rng.choice(targets).partition("::")
    changed = [site for site in mutations.sites(texts[path], [name]) if site.kind in mutations.IN_FUNCTIONS]
    neutral = rewrites.neutral_sites(texts[path], [name])
    found, seed = rng.choice([changed, neutral]), rng.randrange(2**32)
    # Not every body can be written otherwise and do the same.
    made = mutations.drawn(texts[path], found, 1, seed) or mutations.drawn(texts[path], changed, 1, seed)
    return {path: made[0].text}


def _patch(texts: Mapping[str, str], package: str, rng: random.Random) -> dict[str, str | None]:
    edits: dict[str, str | None] = {}
    for _ in range(rng.choice([1, 1, 2, 3])):
        now = {path: text for path in texts if (text := edits.get(path, texts[path])) is not None}
        make = rng.choice([_mutated, _mutated, _mutated, _mutated, _rewritten, _whole_file])
        edits |= make(now, package, rng)
    return edits


def _mutated(texts: Mapping[str, str], package: str, rng: random.Random) -> dict[str, str | None]:
    path = _any_of(texts, rng)
    made = mutations.drawn(texts[path], mutations.sites(texts[path]), 3, rng.randrange(2**32))
    return {path: rng.choice(made).text} if made else _whole_file(texts, package, rng)


def _any_of(texts: Mapping[str, str], rng: random.Random) -> str:
    """Draw a path; a long file has more that can be changed."""
    return rng.choices(sorted(texts), weights=[1 + len(texts[path]) for path in sorted(texts)])[0]


def _rewritten(texts: Mapping[str, str], package: str, rng: random.Random) -> dict[str, str | None]:
    path = _any_of(texts, rng)
    made = mutations.drawn(texts[path], rewrites.neutral_sites(texts[path]), 3, rng.randrange(2**32))
    return {path: rng.choice(made).text} if made else _mutated(texts, package, rng)


def _whole_file(texts: Mapping[str, str], package: str, rng: random.Random) -> dict[str, str | None]:
    """Add, remove or move a module, or change what `__init__` does."""
    path = rng.choice(sorted(texts))
    plain = path.removesuffix(".py")
    init = f"{package}/__init__.py"
    changes: list[dict[str, str | None]] = [
        {f"{package}/added.py": "ADDED = 1\n"},
        {f"{package}/added.py": "ADDED = 1\n", init: f"{texts[init]}\nfrom .added import ADDED\n"},
        {init: f"{texts[init]}\nimport sys as _sys\n_MODULES = len(_sys.modules)\n"},
        {init: f"{texts[init]}\nraise_nothing = 1 / 1\n"},
    ]
    if not path.endswith("__init__.py"):
        changes += [{path: None}, {path: None, f"{plain}/__init__.py": texts[path]}]
    return rng.choice(changes)
