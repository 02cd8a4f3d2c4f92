"""One selftest: every entry is shown to naive judges, then to our gate; many candidates share a run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeflash_parallel.workspace.cache_layout import cache_faults
from selftest import naive, traces
from selftest.entries import Base, Entry, Kind, Trace, bases
from selftest.gate import Question, Said, Way, ask
from selftest.judging import Fooled, Outcome, Told, judged, skipped
from selftest.projects import Marks, edits_of, marks, write_files, write_repository

#: Candidates of one run at most: what disturbs it disturbs no more than these.
MOST_AT_ONCE = 64

#: Candidates of one race at most: they share its time.
MOST_IN_A_RACE = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a selftest is asked for.

    Attributes:
        entries: of the corpus.
        interpreter: runs the projects and the naive judges.
        options: of our command line, for every run (`--isolation sandbox`, `--new-process`).
        jobs: processes at once.
        naive: show attacks to the naive judges first.
        folder: where a temporary folder is made; `None`: where such folders are.
    """

    entries: Sequence[Entry]
    interpreter: Path
    options: tuple[str, ...] = ()
    jobs: int = 2
    naive: bool = True
    folder: str | None = None


Say = Callable[[str], None]


def run_selftest(wish: Wish, say: Say, done: Callable[[Outcome], None]) -> tuple[Outcome, ...]:
    """Run entries of the corpus; return what became of them, in the order in which they were asked for.

    Args:
        wish: what is asked for.
        say: receives progress, one line at a time.
        done: receives every outcome as soon as it is known.
    """
    with _working_folder(wish.folder) as folder:
        work = _Work(wish=wish, folder=Path(folder), say=say)
        found = {}
        for outcome in work.outcomes():
            done(outcome)
            found[outcome.name] = outcome
        return tuple(found[entry.name] for entry in wish.entries)


def _working_folder(below: str | None) -> tempfile.TemporaryDirectory[str]:
    if below is None:
        return tempfile.TemporaryDirectory(prefix=_PREFIX)
    with cache_faults(Path(below)):
        Path(below).mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=below)


_PREFIX = "codeflash-parallel-selftest-"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Work:
    """A selftest while it goes on."""

    wish: Wish
    folder: Path
    say: Say
    lacking: dict[str, str] = field(default_factory=dict)

    def outcomes(self) -> Iterator[Outcome]:
        able, unable = self._able()
        yield from unable
        fooled = self._fooled([entry for entry in able if entry.is_attack]) if self.wish.naive else {}
        batches = list(_batches(able))
        for number, batch in enumerate(batches, start=1):
            what = batch[0].name if len(batch) == 1 else f"{len(batch)} candidates of {batch[0].base}"
            self.say(f"our gate, run {number} of {len(batches)}: {what}")
            yield from self._judged(batch, fooled, number)

    def _able(self) -> tuple[list[Entry], list[Outcome]]:
        able, unable = [], []
        for entry in self.wish.entries:
            missing = self._missing(bases()[entry.base])
            if missing:
                unable.append(skipped(entry, f"{self.wish.interpreter} has no {missing}"))
            else:
                able.append(entry)
        return able, unable

    def _missing(self, base: Base) -> str:
        if base.name not in self.lacking:
            found = (name for name in base.needs if not _has(self.wish.interpreter, name))
            self.lacking[base.name] = next(found, "")
        return self.lacking[base.name]

    def _fooled(self, attacks: Sequence[Entry]) -> Mapping[str, Fooled]:
        """Show attacks to the naive judges: side by side, those that need a clock one after the other."""
        tested = [entry for entry in attacks if entry.kind is not Kind.CLOCK]
        timed = [entry for entry in attacks if entry.kind is Kind.CLOCK]
        if attacks:
            self.say(f"naive judges: {len(attacks)} attacks")
        names = sorted({entry.base for entry in tested})
        with _workers(self.wish.jobs) as pool:
            ran = pool.map(lambda name: self._baseline(bases()[name]), names)
            baselines = dict(zip(names, ran, strict=True))
            said = pool.map(lambda entry: self._shown(entry, baselines[entry.base]), tested)
            found = dict(zip((entry.name for entry in tested), said, strict=True))
        nothing = naive.Ran(status=0, passed=0, last_line="", output="")
        return found | {entry.name: self._shown(entry, nothing) for entry in timed}

    def _baseline(self, base: Base) -> naive.Ran:
        folder = self.folder / "naive" / f"base-{base.name}" / "tree"
        write_files(folder, base.files)
        return naive.run_tests(folder, self.wish.interpreter, "")

    def _shown(self, entry: Entry, baseline: naive.Ran) -> Fooled:
        folder = self.folder / "naive" / entry.name
        folder.mkdir(parents=True)
        with marks(entry, self.folder / "outside" / f"naive-{entry.name}") as mark:
            place = naive.Place(folder=folder, interpreter=self.wish.interpreter)
            found = naive.fooled(entry, bases()[entry.base], baseline, mark, place)
        shutil.rmtree(folder, ignore_errors=True)
        return found

    def _judged(self, batch: Sequence[Entry], fooled: Mapping[str, Fooled], number: int) -> Iterator[Outcome]:
        base = bases()[batch[0].base]
        repository = self.folder / f"{base.name}-{number}"
        write_repository(repository, base)
        with ExitStack() as stack:
            outside = self.folder / "outside"
            known = {e.name: stack.enter_context(marks(e, outside / f"gate-{e.name}")) for e in batch}
            question = Question(
                command="run" if batch[0].kind is Kind.CLOCK else "check",
                repository=repository,
                base=base,
                lines=[_line(entry, base, known[entry.name]) for entry in batch],
                secret=known[batch[0].name].token,
            )
            said = ask(question, self._way(batch[0]))
            for entry in batch:
                yield judged(
                    entry,
                    _told(entry, said, known[entry.name], (repository, self.folder / "cache")),
                    fooled.get(entry.name),
                )
                traces.remove(known[entry.name])
        shutil.rmtree(repository, ignore_errors=True)

    def _way(self, entry: Entry) -> Way:
        return Way(
            interpreter=self.wish.interpreter,
            cache=self.folder / "cache",
            slots=self.wish.jobs,
            options=(*entry.options, *self.wish.options),
        )


@contextmanager
def _workers(number: int) -> Iterator[ThreadPoolExecutor]:
    """Give a pool that begins nothing more once something has gone wrong."""
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _has(interpreter: Path, module: str) -> bool:
    command = [str(interpreter), "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield what is judged in one run: of one project, asked for in one way; races come last."""
    grouped: dict[tuple[object, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        alone = entry.name if entry.alone else ""
        grouped[entry.kind is Kind.CLOCK, alone, entry.base, entry.options].append(entry)
    for key in sorted(grouped, key=repr):
        batch = grouped[key]
        most = MOST_IN_A_RACE if batch[0].kind is Kind.CLOCK else MOST_AT_ONCE
        for start in range(0, len(batch), most):
            yield batch[start : start + most]


def _line(entry: Entry, base: Base, mark: Marks) -> dict[str, Any]:
    """Return an entry as a line of a manifest."""
    if entry.kind is Kind.HONEST:
        function = f"{base.module}::{entry.function}"
        return {"id": entry.name, "replacement": entry.code.lstrip("\n"), "function": function}
    return {"id": entry.name, "edits": edits_of(entry, base, mark)}


def _told(entry: Entry, said: Said, mark: Marks, shared: tuple[Path, ...]) -> Told:
    seen = traces.Seen(
        shown=said.screen if entry.trace is Trace.ESCAPES else said.kept,
        killed=said.killed or said.candidate(entry.name) is None,
        shared=shared,
    )
    return Told(
        candidate=said.candidate(entry.name),
        error=said.error,
        reached=traces.reached(entry.trace, mark, seen),
        level=said.level,
    )
