"""Ways in which a run can end, and what is right for each of them."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import Finished, processes_of, wait_for
from mounts import mounting, small_disk
from projects import FAST_TOTAL, WRONG_TOTAL
from sites import Site, WrappedPlace

HANGING_TOTAL = "def total(values):\n    while True:\n        pass\n"
BODIES = {"fast": FAST_TOTAL, "wrong": WRONG_TOTAL, "hanging": HANGING_TOTAL}
#: Seconds within which a check of the shop mostly ends; a moment is drawn from them.
SPAN_S = 4.0
#: After the first signal; the promise is 2 s, a busy machine adds to it.
ENDS_IN_S = 10.0
#: Sizes of a cache, from one that holds nothing to one that is enough for small repositories.
DISKS = (
    "size=16k",
    "size=200k",
    "size=400k",
    "size=700k",
    "size=1500k",
    "size=4m",
    "nr_inodes=60",
    "nr_inodes=250",
)
FULL = frozenset({"DISK_FULL", "INFRA_DISK"})


class Wrong(AssertionError):  # noqa: N818 - what the campaign is looking for
    """A run did not end as it should."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Try:
    """One run that is to end in one way.

    Attributes:
        command: arguments of the command line, the candidates excepted.
        candidates: names in `BODIES`.
    """

    site: Site
    place: WrappedPlace
    command: tuple[str, ...]
    candidates: tuple[str, ...]
    dice: random.Random

    @property
    def arguments(self) -> tuple[str, ...]:
        folder = self.site.folder / "state" / f"candidates-{'-'.join(self.candidates)}"
        folder.mkdir(exist_ok=True)
        for name in self.candidates:
            (folder / f"{name}.py").write_text(BODIES[name], encoding="utf-8")
        named = ("--candidates", str(folder), "--function", "shop/sums.py::total", "-j", "1")
        return (*self.command, *named, *self.site.options, "--output-format", "json")

    def run(self) -> Finished:
        return self.place.run(*self.arguments)


def _right(finished: Finished, status: int, codes: Mapping[str, str]) -> str:
    found = {one["id"]: one["code"] for one in finished.document["candidates"]}
    must_be(finished.status == status and found == codes, finished, f"{found}, not {codes}")
    return "right"


def success(tried: Try) -> str:
    return _right(tried.run(), 0, {"fast": "NOT_RACED", "wrong": "TESTS_FAILED"})


def failure(tried: Try) -> str:
    return _right(replace(tried, candidates=("wrong",)).run(), 1, {"wrong": "TESTS_FAILED"})


def timeout(tried: Try) -> str:
    hanging = replace(tried, candidates=("fast", "hanging"), command=(*tried.command, "--timeout", "0.5"))
    finished = hanging.run()
    starved = any(one["code"] == "TIMEOUT" for one in finished.document["candidates"])
    return _right(finished, 0, {"fast": "NOT_RACED", "hanging": "TIMEOUT" if starved else "TOO_SLOW"})


def budget(tried: Try) -> str:
    """A budget for the whole run: what was judged is judged right, and nothing else is said."""
    seconds = tried.dice.uniform(0.3, SPAN_S)
    finished = replace(tried, command=(*tried.command, "--wall-budget", f"{seconds:.2f}")).run()
    document = finished.document
    found = {one["code"] for one in document["candidates"]}
    known = {"NOT_RACED", "TESTS_FAILED"}
    must_be(document["error"] is None and finished.status in {0, 4}, finished, "an error, or a wrong status")
    must_be(not document["complete"] or found == known, finished, "complete, and not judged")
    must_be(
        not {one["code"] for one in document["candidates"] if one["status"] == "rejected"} - known,
        finished,
        "charged",
    )
    return "right"


def race(tried: Try) -> str:
    """A race as short as can be: whatever it finds, the wrong one is out."""
    finished = replace(tried, command=("run", "--time-budget", "1")).run()
    codes = {one["id"]: one["code"] for one in finished.document["candidates"]}
    must_be(finished.document["error"] is None, finished, "an error")
    must_be(codes.get("wrong") == "TESTS_FAILED" and finished.status in {0, 1, 4}, finished, str(codes))
    return "right"


def interrupted(tried: Try) -> str:
    return _signalled(tried, signal.SIGINT, 130)


def terminated(tried: Try) -> str:
    return _signalled(tried, signal.SIGTERM, 143)


def _signalled(tried: Try, number: signal.Signals, status: int) -> str:
    started = tried.place.start(*tried.arguments)
    started.wait_until_it_says("snapshot")
    started.live_for(tried.dice.uniform(0, SPAN_S))
    started.send(number)
    finished = started.finish(ENDS_IN_S)
    document = finished.document
    done = finished.status == 0 and document["complete"]
    told = finished.status == status and document["error"]["code"] == number.name
    must_be(done or told, finished, f"neither done nor {number.name}")
    return "right"


def killed(tried: Try) -> str:
    """Killed by SIGKILL: nothing of it survives, and the next start is as if nothing had been."""
    started = tried.place.start(*tried.arguments)
    started.live_for(tried.dice.uniform(0, SPAN_S))
    started.process.kill()
    finished = started.finish()
    cache = tried.place.cache
    must_be(wait_for(lambda: not processes_of(cache), ENDS_IN_S), finished, f"{processes_of(cache)} live on")
    return success(tried)


def disk_full(tried: Try) -> str:
    """A cache that is full from the start or soon: told in one line, and no candidate's fault."""
    size = tried.dice.choice(DISKS)
    prefix = mounting([*tried.site.mounts, small_disk(tried.place.cache, size)])
    tried.place.cache.mkdir(exist_ok=True)
    users = (
        tried.place.prefix[tried.place.prefix.index("setpriv") :] if "setpriv" in tried.place.prefix else ()
    )
    finished = replace(tried, place=replace(tried.place, prefix=(*prefix, *users))).run()
    document = finished.document
    if document["error"] is not None:
        return refusal(finished, FULL)
    found = {one["id"]: one["code"] for one in document["candidates"]}
    allowed = {"fast": {"NOT_RACED", *FULL}, "wrong": {"TESTS_FAILED", *FULL}}
    must_be(all(code in allowed[name] for name, code in found.items()), finished, f"{size}: {found}")
    return "right" if finished.status == 0 else f"refused: {'/'.join(sorted(set(found.values()) & FULL))}"


def refusal(finished: Finished, codes: frozenset[str]) -> str:
    """A document with an error that a user understands, of one of these codes."""
    error = finished.document["error"]
    family = {"usage": 2, "environment": 4}.get(error["family"])
    must_be(finished.status == family and error["code"] in codes, finished, str(error))
    must_be("\n" not in error["message"], finished, "more than one line")
    return f"refused: {error['code']}"


def must_be(condition: bool, finished: Finished, words: str) -> None:
    if condition and "Traceback" not in finished.errors:
        return
    try:
        error: Any = json.loads(finished.stdout)["error"]
    except (ValueError, KeyError):
        error = finished.stdout[-300:]
    raise Wrong(f"{words}; exit {finished.status}; error {error}; {finished.errors[-1500:]}")


WAYS: Mapping[str, Callable[[Try], str]] = {
    "success": success,
    "failure": failure,
    "timeout": timeout,
    "budget": budget,
    "race": race,
    "sigint": interrupted,
    "sigterm": terminated,
    "sigkill": killed,
    "disk_full": disk_full,
}


def attempt(site: Site, way: str, command: tuple[str, ...], seed: str) -> Try:
    """Return the run that is to end in this way."""
    place = site.settled()
    return Try(
        site=site, place=place, command=command, candidates=("fast", "wrong"), dice=random.Random(seed)
    )


def left_behind(place: WrappedPlace, folder: Path) -> list[str]:
    """Return what a run left: processes, working trees, files of a moment."""
    from aftermath import worktrees_left

    left = [*processes_of(place.cache), *worktrees_left(place.cache)]
    return left + [str(path) for name in ("home", "tmp") for path in (folder / name).iterdir()]
