"""Real packages with a function each, and candidates for it that are made by a program.

Packages come from the package index by their pins; of their text nothing is kept here.
`CODEFLASH_PARALLEL_SDISTS` may name a folder that has the archives already.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE / "tests"), str(HERE / "tests" / "real_projects")]

import mutations  # noqa: E402 - the tests' own
import rewrites  # noqa: E402 - the tests' own
from harness import Place, commit_all, make_place, make_venv  # noqa: E402

from codeflash_parallel.config.environment import QUIET_VARIABLE  # noqa: E402

#: Changes that a test sees at once, and that do not hang.
WRONG = ("return", "constant", "compare", "boolean")
#: Seconds that one command may take here; more is a hang.
LONGEST_S = 1200.0
#: What one plain `pytest` is told; the flags that our own screening amounts to.
PLAIN_FLAGS = ("-q", "-p", "no:cacheprovider", "-x", "--tb=native")


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """A package, what is optimised in it, and the tests of that.

    Attributes:
        kind: what it stands for; its folder is named so.
        functions: qualified names in `path`; none: all of them, once it is prepared.
        requirements: what its tests import besides, installed into an environment of its own.
        editable: a src layout, to be installed.
        wheel: its tests are in the wheel, which serves as its source tree.
    """

    kind: str
    pin: str
    path: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]
    keyword: str = ""
    requirements: tuple[str, ...] = ()
    editable: bool = False
    wheel: bool = False

    @property
    def name(self) -> str:
        return self.pin.partition("==")[0].replace("-", "_")

    @property
    def targets(self) -> list[str]:
        return [f"{self.path}::{name}" for name in self.functions]


#: Those of `checks.py`, by what they stand for. `parse_url` is called while its tests are collected.
WORKLOADS = {
    workload.kind: workload
    for workload in (
        Workload(
            kind="short",
            pin="boltons==26.2.0",
            path="boltons/urlutils.py",
            functions=("parse_url",),
            tests=("tests/test_urlutils.py",),
        ),
        Workload(
            kind="short-strings",
            pin="boltons==26.2.0",
            path="boltons/strutils.py",
            functions=(
                "asciify",
                "strip_ansi",
                "human_readable_list",
                "cardinalize",
                "ordinalize",
                "pluralize",
                "indent",
                "is_uuid",
                "parse_int_list",
                "format_int_list",
                "complement_int_list",
                "int_ranges_from_int_list",
            ),
            tests=("tests/test_strutils.py",),
        ),
        Workload(
            kind="short-iterators",
            pin="toolz==1.2.0",
            path="toolz/itertoolz.py",
            functions=("isdistinct", "get", "nth", "last", "frequencies", "reduceby", "count", "topk"),
            tests=("toolz/tests/test_itertoolz.py",),
        ),
        Workload(
            kind="medium",
            pin="packaging==26.3",
            path="src/packaging/licenses/__init__.py",
            functions=("canonicalize_license_expression",),
            tests=("tests/test_licenses.py", "tests/test_metadata.py"),
            editable=True,
        ),
        Workload(
            kind="heavy-import",
            pin="patsy==1.0.3",
            path="patsy/categorical.py",
            functions=("categorical_to_int",),
            tests=("patsy/test_highlevel.py", "patsy/test_state.py"),
            requirements=("numpy", "pandas"),
            wheel=True,
        ),
        Workload(
            kind="slow-tests",
            pin="networkx==3.6.1",
            path="networkx/algorithms/cycles.py",
            functions=("_johnson_cycle_search", "_chordless_cycle_search"),
            tests=("networkx/algorithms/tests/test_cycles.py",),
            requirements=("numpy",),
            wheel=True,
        ),
        Workload(
            kind="many-tests",
            pin="markdown-it-py==4.3.0",
            path="markdown_it/helpers/parse_link_destination.py",
            functions=("parseLinkDestination",),
            tests=("tests/test_cmark_spec/test_spec.py", "tests/test_port/test_fixtures.py"),
            keyword="not test_file",
        ),
    )
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """The whole text of the target's file."""

    id: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A workload on this machine: a user's repository and an interpreter that can run its tests."""

    workload: Workload
    place: Place
    python: str

    @property
    def file(self) -> Path:
        return self.place.repository / self.workload.path

    @property
    def pytest(self) -> list[str]:
        """The plain command that judges one candidate."""
        keyword = ["-k", self.workload.keyword] if self.workload.keyword else []
        return [self.python, "-m", "pytest", *PLAIN_FLAGS, *self.workload.tests, *keyword]

    def plain_environment(self, tree: Path) -> dict[str, str]:
        """Return an environment in which a plain pytest imports a tree's own package."""
        source = tree / "src" if self.workload.editable else tree
        return {**self.place.environment, "PYTHONPATH": str(source)}

    def check(self, manifest: Path, *options: str) -> Checked:
        """Run our `check` on a manifest, as a user would."""
        functions = [text for target in self.workload.targets for text in ("--function", target)]
        keyword = ["-k", self.workload.keyword] if self.workload.keyword else []
        given = ["--candidates", str(manifest), "--python", self.python, "--output-format", "json"]
        arguments = ["check", *functions, *given, "--tests", *self.workload.tests, *keyword, *options]
        began = time.monotonic()
        finished = self.place.run(*arguments, timeout_s=LONGEST_S)
        wall_s = time.monotonic() - began
        document = finished.document
        if document["error"] or not document["complete"]:
            raise SystemExit(f"{self.workload.pin}: {document['error']}\n{finished.errors[-2000:]}")
        return Checked(wall_s=wall_s, document=document)

    def with_cache(self, name: str) -> Prepared:
        """Return the same with a cache of its own, as if nothing had ever run."""
        return replace(self, place=replace(self.place, cache=self.place.cache.with_name(name)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What one command of ours took, and its JSON document."""

    wall_s: float
    document: dict[str, Any]

    @property
    def judging_s(self) -> float:
        """Seconds in which candidates were judged: snapshot and baseline left out."""
        return float(self.document["timings"]["behavior"]) / 1e3

    @property
    def steps(self) -> str:
        """Where the candidates' time went, in milliseconds a candidate, and who served how many."""
        candidates = self.document["candidates"]
        steps = self.document["steps_ms"].items()
        served = Counter(c["served"] for c in candidates if c["served"])
        each = ", ".join(f"{name} {ms / len(candidates):.0f}" for name, ms in steps)
        return f"ms each: {each}; served " + ", ".join(f"{name} {n}" for name, n in served.most_common())

    @property
    def reasons(self) -> str:
        """Why checks were not served at a later point, each reason once."""
        found = Counter(c["served_why"] for c in self.document["candidates"] if c["served_why"])
        return "; ".join(f"{why} ({n})" for why, n in found.most_common(3))

    @property
    def rejected(self) -> set[str]:
        return {c["id"] for c in self.document["candidates"] if c["status"] == "rejected"}

    def told(self, candidate: str) -> str:
        """Say why a candidate was rejected: its code and the first difference, if it is of values."""
        (found,) = (c for c in self.document["candidates"] if c["id"] == candidate)
        differs = found["difference"]
        shown = f": {differs['inputs']} gives {differs['got']}, not {differs['expected']}" if differs else ""
        return f"{candidate} {found['code']}{shown[:300] or ': ' + found['reason']}"


def prepare(workload: Workload, folder: Path) -> Prepared:
    """Unpack a package into a repository of its own, and make what its tests need."""
    own = folder / workload.kind
    own.mkdir(parents=True, exist_ok=True)
    place = make_place(own / workload.name)
    place.environment.pop("CODEFLASH_PARALLEL_ALLOW_WRITE")  # which fixtures need, and users do not
    archive = _archive(workload, folder / "archives")
    if workload.wheel:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(place.repository)
    else:
        shutil.unpack_archive(archive, place.repository, filter="data")
        _strip_top(place.repository)
    commit_all(place.repository)
    functions = workload.functions or functions_in(place.repository / workload.path)
    python = _interpreter(workload, place, own)
    return Prepared(workload=replace(workload, functions=functions), place=place, python=python)


def _archive(workload: Workload, folder: Path) -> Path:
    found = _found(workload, Path(os.environ.get("CODEFLASH_PARALLEL_SDISTS", str(folder))))
    if not found:
        folder.mkdir(exist_ok=True)
        form = [] if workload.wheel else ["--no-binary", workload.pin.partition("==")[0]]
        _pip(workload, sys.executable, "download", "-q", "--no-deps", *form, "-d", str(folder), workload.pin)
        found = _found(workload, folder)
    return found[0]


def _found(workload: Workload, folder: Path) -> list[Path]:
    form = "-*.whl" if workload.wheel else ".tar.gz"
    return sorted(folder.glob(f"{workload.name}-{workload.pin.partition('==')[2]}{form}"))


def _strip_top(repository: Path) -> None:
    (top,) = repository.iterdir()
    for path in list(top.iterdir()):
        path.rename(repository / path.name)
    top.rmdir()


def _interpreter(workload: Workload, place: Place, folder: Path) -> str:
    if not workload.requirements and not workload.editable:
        return sys.executable
    venv = make_venv(folder / "venv")
    python = str(venv / "bin" / "python")
    installed = [*workload.requirements, *(["-e", str(place.repository)] if workload.editable else [])]
    _pip(workload, python, "install", "-q", *installed)
    return python


def _pip(workload: Workload, python: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", python, *arguments]
    # Versions are read from tags, and there are none in an archive.
    environment = {**os.environ, "SETUPTOOLS_SCM_PRETEND_VERSION": workload.pin.partition("==")[2]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pip {' '.join(arguments)}: {done.stderr.strip()[-600:]}")


def generated(prepared: Prepared, right: int, wrong: int, seed: int = 1) -> list[Candidate]:
    """Make candidates of the target's file: some written otherwise, some changed; mixed, named by kind."""
    source = prepared.file.read_text(encoding="utf-8")
    functions = prepared.workload.functions
    neutral = mutations.drawn(source, rewrites.neutral_sites(source, functions), right, seed)
    sites = [site for site in mutations.sites(source, functions) if site.kind in WRONG]
    changed = mutations.drawn(source, sites, wrong, seed)
    found = [Candidate(id=f"right{n}", text=m.text) for n, m in enumerate(neutral)]
    found += [Candidate(id=f"right{n}", text=_marked(source, n)) for n in range(len(found), right)]
    for n, mutant in enumerate(changed):
        found.insert((n + 1) * len(found) // (wrong + 1), Candidate(id=f"changed{n}", text=mutant.text))
    return found


def mutants_of(prepared: Prepared, count: int, seed: int) -> list[Candidate]:
    """Make mutants of every kind; an id says the module, the seed, the number, the kind and the line."""
    return _drawn(prepared, mutations.sites, count, seed)


def rewrites_of(prepared: Prepared, count: int, seed: int) -> list[Candidate]:
    """Write functions otherwise so that they do the same; ids as those of mutants."""
    return _drawn(prepared, rewrites.neutral_sites, count, seed)


def _drawn(
    prepared: Prepared, sites: Callable[[str, Sequence[str]], list[mutations.Site]], count: int, seed: int
) -> list[Candidate]:
    source = prepared.file.read_text(encoding="utf-8")
    drawn = mutations.drawn(source, sites(source, prepared.workload.functions), count, seed)
    stem = prepared.workload.kind
    return [
        Candidate(id=f"{stem}-{seed}-{n}-{mutant.kind}-{mutant.line}", text=mutant.text)
        for n, mutant in enumerate(drawn)
    ]


def _marked(source: str, number: int) -> str:
    return f"{source}\n\n_COPY = {number}\n"


def documented(
    prepared: Prepared, program: str, command: str, candidates: Sequence[Candidate], options: Sequence[str]
) -> dict[str, Any]:
    """Return the JSON document of `check` or `run` by a version of the tool, with nothing cached."""
    manifest = manifest_of(prepared, candidates, prepared.place.state / "documented.jsonl")
    workload = prepared.workload
    keyword = ["-k", workload.keyword] if workload.keyword else []
    functions = [word for target in workload.targets for word in ("--function", target)]
    quiet = {name: os.environ[name] for name in (QUIET_VARIABLE,) if name in os.environ}
    with tempfile.TemporaryDirectory(dir=prepared.place.home.parent) as cache:
        done = subprocess.run(
            [
                *(program, "-m", "codeflash_parallel", command, "--cache-dir", cache),
                *("--python", prepared.python, *functions, "--candidates", str(manifest)),
                *("--tests", *workload.tests, *keyword, "--output-format", "json", *options),
            ],
            cwd=prepared.place.repository,
            env={**prepared.place.environment, **quiet},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{workload.pin}: {done.stderr[-2000:]}") from None
    if document["error"]:
        raise SystemExit(f"{workload.pin}: {document['error']}")
    return document


def manifest_of(prepared: Prepared, candidates: Sequence[Candidate], path: Path) -> Path:
    """Write candidates as a manifest."""
    edits = ({"id": c.id, "edits": {prepared.workload.path: c.text}} for c in candidates)
    path.write_text("".join(json.dumps(line) + "\n" for line in edits), encoding="utf-8")
    return path


def functions_in(file: Path) -> tuple[str, ...]:
    """Return the qualified names of a module's functions and methods."""
    return tuple(mutations.functions_of(ast.parse(file.read_text(encoding="utf-8"))))


def seconds_of(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def machine() -> str:
    """Say what the figures were taken on."""
    cores, python = len(os.sched_getaffinity(0)), sys.version.split()[0]
    return f"cores {cores}, load {os.getloadavg()[0]:.2f}, Python {python}"
