"""Mutants of real functions that the projects' own tests do not kill: which ones does `check` reject?

    python benchmarks/survivors.py [--packages boltons toolz] [--each 40] [--file survivors.jsonl]
        [--program old=/old/venv/bin/python --program new=/new/venv/bin/python]

Functions that the tests of a package call are mutated by the usual operators, words of exceptions left out.
`surviving.py` finds the mutants that its tests do not notice; those of a function are candidates of one
`check` of that function (a check of all functions at once records only the outermost calls). Each survivor is
a line of the file for each program: rejected by `captured` calls, by `fresh` inputs, by `other` evidence,
accepted with a `hint`, or `remaining`; what it changed; and what was said of it. What has a line is not
judged again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workloads import LONGEST_S, Candidate, Prepared, Workload, documented, machine, mutations, prepare

Line = dict[str, Any]
#: Stands in a line for what the tests have found.
TESTS = "tests"
#: What became of a survivor.
RESULTS = ("captured", "fresh", "other", "hint", "remaining", "not judged")
#: Mutants hang now and then; nothing here needs a second of CPU.
OPTIONS = ("--timeout", "2", "-j", "2", "--seed", "1")


def _package(
    pin: str,
    path: str,
    tests: str,
    keyword: str = "",
    requirements: tuple[str, ...] = (),
    kind: str = "",
) -> Workload:
    return Workload(
        kind=kind or pin.partition("==")[0],
        pin=pin,
        path=path,
        functions=(),
        tests=tuple(tests.split()),
        keyword=keyword,
        requirements=requirements,
        editable=path.startswith("src/"),
    )


PACKAGES = {
    workload.kind: workload
    for workload in (
        _package("boltons==26.2.0", "boltons/strutils.py", "tests/test_strutils.py"),
        _package(
            "boltons==26.2.0", "boltons/iterutils.py", "tests/test_iterutils.py", kind="boltons-iterutils"
        ),
        _package("xmltodict==1.0.4", "xmltodict.py", "tests", "not memory_usage"),
        _package("toolz==1.2.0", "toolz/itertoolz.py", "toolz/tests/test_itertoolz.py"),
        _package("inflection==0.5.1", "inflection/__init__.py", "test_inflection.py"),
        _package("webcolors==25.10.0", "src/webcolors/_html5.py", "tests/test_html5.py"),
        _package("tabulate==0.10.0", "tabulate/__init__.py", "test/test_output.py test/test_internal.py"),
        _package(
            "python-slugify==9.2.0", "slugify/_legacy.py", "tests/test_legacy.py", "", ("text-unidecode",)
        ),
        _package("idna==3.20", "idna/core.py", "tests/test_idna.py"),
        _package("humanize==4.17.0", "src/humanize/number.py", "tests/test_number.py"),
        _package(
            "more-itertools==11.2.1",
            "more_itertools/recipes.py",
            "tests/test_recipes.py",
            "not Prime and not Sieve",
        ),
        _package("packaging==26.3", "src/packaging/utils.py", "tests/test_utils.py"),
        _package(
            "natsort==8.4.0", "natsort/utils.py", "tests/test_utils.py", "", ("hypothesis", "pytest-mock")
        ),
    )
}


def _less(node: ast.AST) -> Iterator[mutations.Change]:
    if isinstance(node, ast.Constant) and type(node.value) in {int, float}:
        yield node, f"({node.value!r} - 1)"


def _limit(node: ast.AST) -> Iterator[mutations.Change]:
    """Leave out an end of a slice, and of what is gone through."""
    if isinstance(node, ast.Slice) and node.upper is not None:
        yield node.upper, ""
    if isinstance(node, ast.For):
        for bounds in ("20", "1, None"):
            yield node.iter, f"__import__('itertools').islice({ast.unparse(node.iter)}, {bounds})"


def _return(node: ast.AST) -> Iterator[mutations.Change]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield node, "return None"


OPERATORS = {
    **{name: mutations.IN_FUNCTIONS[name] for name in ("arithmetic", "compare", "constant", "boolean")},
    "removal": mutations.IN_FUNCTIONS["removal"],
    "less": _less,
    "limit": _limit,
    "return": _return,
}


def _told(function: mutations.Function) -> list[ast.AST]:
    """Return the nodes of a function without those of what it raises: words of exceptions are no outcome."""
    found = mutations.within(function)
    raised = [node.exc for node in found if isinstance(node, ast.Raise) and node.exc]
    return [node for node in found if not any(node in ast.walk(each) for each in raised)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutated:
    """A candidate, the function that it changes, and how."""

    id: str
    function: str
    text: str


def mutants_of(prepared: Prepared, count: int) -> list[Mutated]:
    """Draw mutants of a module's functions; an id says the package, the number, the kind and the line."""
    source = prepared.file.read_text(encoding="utf-8")
    functions = mutations.functions_of(ast.parse(source))
    sites = [
        site
        for function in functions.values()
        for kind, changes in OPERATORS.items()
        for site in mutations.sites_of(kind, changes, _told(function))
    ]
    return [
        Mutated(
            id=f"{prepared.workload.kind}-{number}-{one.kind}-{one.line}",
            function=next(n for n, f in functions.items() if f.lineno <= one.line <= (f.end_lineno or 0)),
            text=one.text,
        )
        for number, one in enumerate(mutations.drawn(source, sites, count, 1))
    ]


def surviving(prepared: Prepared, mutants: Sequence[Mutated]) -> dict[str, Any]:
    """Let the tests judge the mutants; return functions that are called, and ids of survivors."""
    job = prepared.place.state / "job.json"
    source = "src" if prepared.workload.editable else "."
    about: dict[str, Any] = {"file": str(prepared.file), "imports": str(prepared.place.repository / source)}
    about |= {"seconds": LONGEST_S / 3, "mutants": {one.id: (one.function, one.text) for one in mutants}}
    job.write_text(json.dumps(about), encoding="utf-8")
    script = str(Path(__file__).with_name("surviving.py"))
    done = subprocess.run(
        [prepared.python, script, str(job), *prepared.pytest[3:]],
        cwd=prepared.place.repository,
        env={**prepared.place.environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    found: dict[str, Any] = json.loads(job.read_text(encoding="utf-8"))
    if "survivors" not in found:
        raise SystemExit(f"{prepared.workload.pin}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def judged(prepared: Prepared, label: str, program: str, mutants: Sequence[Mutated]) -> list[Line]:
    """Judge survivors by one `check` of each function; return a line for each survivor."""
    functions = dict.fromkeys(one.function for one in mutants)
    return [
        line
        for function in functions
        for line in _judged(prepared, label, program, [one for one in mutants if one.function == function])
    ]


def _judged(prepared: Prepared, label: str, program: str, mutants: Sequence[Mutated]) -> list[Line]:
    own = replace(prepared, workload=replace(prepared.workload, functions=(mutants[0].function,)))
    candidates = [Candidate(id=one.id, text=one.text) for one in mutants]
    began = time.monotonic()
    document = documented(own, program, "check", candidates, OPTIONS)
    seconds = (time.monotonic() - began) / len(mutants)
    found = {each["id"]: each for each in document["candidates"]}
    source = prepared.file.read_text(encoding="utf-8")
    return [
        {
            "program": label,
            "package": prepared.workload.kind,
            "id": one.id,
            "function": one.function,
            "result": result_of(found[found[one.id]["duplicate_of"] or one.id]),
            "change": changed(source, one.text),
            **{name: found[one.id][name] for name in ("code", "reason", "hints", "difference")},
            "level": (found[one.id]["values"] or {}).get("level"),
            "seconds": seconds,
        }
        for one in mutants
    ]


def result_of(found: Mapping[str, Any]) -> str:
    """Say in a word what became of a survivor."""
    if found["status"] in {"cancelled", "infra", "unappliable"}:
        return "not judged"
    if found["status"] != "rejected":
        return "hint" if found["hints"] else "remaining"
    if not found["difference"]:
        return "other"
    return "fresh" if found["difference"]["derived"] else "captured"


def changed(source: str, text: str) -> str:
    """Return the changed lines, before and after."""
    lines = difflib.ndiff(source.splitlines(), text.splitlines())
    return "\n".join(line for line in lines if line[0] in "+-")


def report(lines: Sequence[Line]) -> None:
    """Print a table for each program."""
    for label in dict.fromkeys(line["program"] for line in lines):
        own = [line for line in lines if line["program"] == label]
        print(f"\n{label}\n{'package':18}{'n':>5}" + "".join(f"{name:>12}" for name in RESULTS))
        for package in [*dict.fromkeys(line["package"] for line in own), ""]:
            some = [line for line in own if package in {"", line["package"]}]
            counted = Counter(line["result"] for line in some)
            cells = "".join(f"{counted[name]:12}" for name in RESULTS)
            print(f"{package or 'all':18}{len(some):5}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--packages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    parser.add_argument("--mutants", type=int, default=250, help="of a package")
    parser.add_argument("--each", type=int, default=50, help="survivors of a package at most")
    parser.add_argument("--program", action="append", default=[], metavar="LABEL=PYTHON")
    parser.add_argument("--file", type=Path, help="lines of what is done are appended and not made again")
    options = parser.parse_args()
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(prefix="survivors-") as name:
        lines = Lines(options.file or Path(name) / "lines.jsonl")
        for package in options.packages:
            campaign(PACKAGES[package], lines, Path(name), options)
    report([line for line in lines.all if line["program"] != TESTS])
    print(f"load {os.getloadavg()[0]:.2f}")


class Lines:
    """Lines of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all: list[Line] = (
            [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if path.exists()
            else []
        )

    def of(self, label: str, package: str) -> list[Line]:
        return [line for line in self.all if (line["program"], line["package"]) == (label, package)]

    def add(self, made: Sequence[Line]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in made)
        self.all += made


def campaign(workload: Workload, lines: Lines, folder: Path, options: argparse.Namespace) -> None:
    """Do for a package what has no lines yet."""
    programs = [p.partition("=")[::2] for p in options.program] or [("this", sys.executable)]
    wanted = [each for each in programs if not lines.of(each[0], workload.kind)]
    if not wanted:
        return
    prepared = prepare(workload, folder)
    mutants = mutants_of(prepared, options.mutants)
    if not lines.of(TESTS, workload.kind):
        lines.add([{"program": TESTS, "package": workload.kind, **surviving(prepared, mutants)}])
    (tests,) = lines.of(TESTS, workload.kind)
    kept = [one for one in mutants if one.id in tests["survivors"]][: options.each]
    print(f"{workload.kind}: {len(tests['survivors'])} of {len(mutants)} survive", flush=True)
    for label, program in wanted:
        made = judged(prepared, label, program, kept)
        lines.add(made)
        counted = Counter(line["result"] for line in made)
        print(f"{workload.kind} {label}: " + ", ".join(f"{n} {c}" for n, c in counted.items()), flush=True)


if __name__ == "__main__":
    main()
