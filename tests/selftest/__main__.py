"""Judge known attacks and honest candidates on this machine; say what is caught.

    PYTHONPATH=tests python -m selftest [--all] [--isolation sandbox] [--only NAME] [--json]

It ends with 1 if a wrong candidate passed, a cheat was credited or an honest one was rejected.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from codeflash_parallel.process.machine import read_machine
from selftest.campaign import Wish, run_selftest
from selftest.entries import FAMILIES, LEVELS, Entry, corpus
from selftest.judging import BAD, Outcome, has_failed
from selftest.table import as_values, listed, markdown


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="selftest", description="Judge known attacks and honest candidates.")
    names = sorted({*FAMILIES, *(entry.name for entry in corpus())})
    made.add_argument(
        "--only", metavar="NAME", action="append", default=[], choices=names, help="A family or an entry."
    )
    half = made.add_mutually_exclusive_group()
    half.add_argument("--honest-only", action="store_true", help="Honest candidates only.")
    half.add_argument("--attacks-only", action="store_true", help="Attacks only.")
    made.add_argument("--all", action="store_true", help="Those that take long, too.")
    made.add_argument("--python", default=sys.executable, help="Interpreter of the projects.")
    made.add_argument("--isolation", choices=("auto", *LEVELS), default="auto")
    made.add_argument("--new-process", action="store_true", help="A new process for every candidate.")
    made.add_argument("--jobs", type=int, choices=range(1, 65), metavar="N", default=read_machine().cores)
    made.add_argument("--no-naive", action="store_true", help="Show attacks to no naive judges; all count.")
    made.add_argument("--cache-dir", help="Where temporary folders are made.")
    made.add_argument("--list", action="store_true", help="Say what there is, and run nothing.")
    made.add_argument("--json", action="store_true", help="Write JSON instead of a Markdown table.")
    return made


def chosen(args: argparse.Namespace) -> tuple[Entry, ...]:
    return tuple(entry for entry in corpus() if _is_asked_for(entry, args))


def _is_asked_for(entry: Entry, args: argparse.Namespace) -> bool:
    if args.only and not {entry.name, entry.family}.intersection(args.only):
        return False
    if (args.honest_only and entry.is_attack) or (args.attacks_only and not entry.is_attack):
        return False
    return entry.quick or args.all or entry.name in args.only


def wish_of(args: argparse.Namespace, entries: Sequence[Entry]) -> Wish:
    return Wish(
        entries=entries,
        interpreter=Path(args.python),
        options=("--isolation", args.isolation, *(("--new-process",) if args.new_process else ())),
        jobs=args.jobs,
        naive=not args.no_naive,
        folder=args.cache_dir,
    )


def say(text: str) -> None:
    print(f"selftest: {text}", file=sys.stderr, flush=True)


def note(outcome: Outcome) -> None:
    if outcome.became in BAD:
        say(f"{outcome.name}: {outcome.became} {outcome.code}: {outcome.reason}")


def main(arguments: Sequence[str]) -> int:
    args = parser().parse_args(arguments)
    entries = chosen(args)
    if args.list or not entries:
        print("\n".join(listed(entries)) or "No entry is left.")
        return 0 if entries else 2
    outcomes = run_selftest(wish_of(args, entries), say, note)
    print(json.dumps(as_values(outcomes), indent=2) if args.json else markdown(outcomes))
    return int(has_failed(outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
