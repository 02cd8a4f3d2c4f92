"""Build the real cases: a checkout, a virtual environment and the candidates' patches of each.

    python benchmarks/real_cases/build.py --repositories '/some/folder/{owner}+{name}/repo'

What is there already is kept; patches are written anew.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import algotune
from edits import Sources

HERE = Path(__file__).parent
FACTS = HERE / "facts"
WORKLOADS = HERE / "workloads"
WORK = Path("~/.cache/codeflash-parallel-bench").expanduser()
#: Who commits a base that is made.
_NOBODY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "bench", "EMAIL": "bench", "DATE": "2000-01-01T00:00:00Z"}.items()
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case's facts, and where its parts lie in the work folder."""

    facts: Mapping[str, Any]
    work: Path

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def folder(self) -> Path:
        return self.work / self.name

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def patches(self) -> Path:
        return self.folder / "candidates"

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def workload(self) -> Path:
        """Where our workload of the targets is, with a function `main`."""
        return WORKLOADS / f"{self.name}.py"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the tests: the package's folder where the project is not installed."""
        roots = self.facts["src_roots"] if self.facts["install"] == "pythonpath" else None
        paths = {"PYTHONPATH": os.pathsep.join(str(self.checkout / root) for root in roots)} if roots else {}
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return {**kept, **paths}

    @cached_property
    def sources(self) -> Sources:
        return _Commits(self)

    @property
    def is_made(self) -> bool:
        """Say whether the base is made of a task of AlgoTune, and is no commit of its repository."""
        return "task" in self.facts

    def upstream_text(self, path: str) -> str:
        """Return the text of a file of the repository whose task is the base."""
        return git(self.checkout, "show", f"{self.facts['perf_commits'][0]}:{path}")


@dataclass(frozen=True)
class _Commits(Sources):
    """The case's `Sources`: its checkout's objects."""

    case: Case

    def base(self, path: str) -> str:
        return self._at(self.case.facts["base_commit"], path)

    def upstream(self, number: int) -> dict[str, str]:
        commit = self.case.facts["perf_commits"][number]
        texts = {path: self._at(commit, path) for path in self.case.facts["perf_files"]}
        return {path: text for path, text in texts.items() if text != self.base(path)}

    def _at(self, commit: str, path: str) -> str:
        return git(self.case.checkout, "show", f"{commit}:{path}")


def git(folder: Path, *arguments: str, text: str | None = None, **environment: str) -> str:
    command = ("git", "-C", str(folder), *arguments)
    variables = {**os.environ, **environment}
    done = subprocess.run(command, input=text, text=True, capture_output=True, env=variables, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


def load_facts(path: Path = FACTS) -> list[dict[str, Any]]:
    """Return the facts of all cases: of a folder with a file for each, or of one file with a list."""
    if path.is_dir():
        return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(path.glob("*.json"))]
    try:
        facts: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"no facts in {path}: {error}") from None
    return facts


def load_cases(names: Sequence[str], work: Path, path: Path = FACTS) -> list[Case]:
    """Return the cases of these names, all where there are none."""
    facts = load_facts(path)
    if unknown := set(names) - {each["name"] for each in facts}:
        raise SystemExit(f"no such case: {', '.join(sorted(unknown))}")
    return [Case(facts=each, work=work) for each in facts if not names or each["name"] in names]


def build(case: Case, repositories: str) -> None:
    """Make what a run of the case needs, unless it is there."""
    case.folder.mkdir(parents=True, exist_ok=True)
    _check_out(case, repositories)
    _make_environment(case)
    _write_patches(case)


def _check_out(case: Case, repositories: str) -> None:
    facts = case.facts
    owner, name = facts["repo"].split("/")
    if not (case.checkout / ".git").exists():
        source = repositories.format(owner=owner, name=name)
        partial = case.folder / "checkout.partial"
        shutil.rmtree(partial, ignore_errors=True)
        git(case.folder, "clone", "--quiet", "--no-checkout", source, str(partial))
        partial.rename(case.checkout)
    for commit in (*([] if case.is_made else [facts["base_commit"]]), *facts["perf_commits"]):
        known = subprocess.run(
            ("git", "-C", case.checkout, "cat-file", "-e", commit + "^{commit}"), check=False
        )
        if known.returncode:
            git(case.checkout, "fetch", "--quiet", "origin", commit)
    if case.is_made:
        _commit_base(case, project_texts(case))
    restore(case)


def project_texts(case: Case) -> dict[str, str]:
    """Return the files of a base that is made, by path."""
    return algotune.project(case.facts, case.upstream_text)


def _commit_base(case: Case, texts: Mapping[str, str]) -> None:
    """Make a base without history: a commit of these texts alone, under the name that the facts have."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        _stage(case, texts, index)
        tree = git(case.checkout, "write-tree", **index).strip()
    commit = git(
        case.checkout, "commit-tree", tree, "-m", f"The task {case.facts['task']}", **_NOBODY
    ).strip()
    git(case.checkout, "update-ref", case.facts["base_commit"], commit)


def _stage(case: Case, texts: Mapping[str, str], index: Mapping[str, str]) -> None:
    for path, text in texts.items():
        blob = git(case.checkout, "hash-object", "-w", "--stdin", text=text).strip()
        git(case.checkout, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", **index)


def restore(case: Case) -> None:
    """Bring the checkout back to the base commit; ignored files stay."""
    git(case.checkout, "checkout", "--quiet", "--force", "--detach", case.facts["base_commit"])
    git(case.checkout, "clean", "--quiet", "-d", "--force")


def _make_environment(case: Case) -> None:
    facts = case.facts
    wanted = ["pytest", *facts["requirements"]]
    if facts["install"] == "editable":
        wanted += ["--editable", str(case.checkout)]
    stamp = case.folder / "venv.installed"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == json.dumps(wanted):
        return
    stamp.unlink(missing_ok=True)
    venv.create(case.folder / "venv", clear=True, with_pip=True)
    variables = {**case.environment, **(facts["env"] or {})}
    variables.pop("PYTHONPATH", None)
    subprocess.run((case.python, "-m", "pip", "install", "--quiet", *wanted), env=variables, check=True)
    stamp.write_text(json.dumps(wanted), encoding="utf-8")


def _write_patches(case: Case) -> None:
    candidates = candidate_texts(case)
    if set(candidates) != (named := {each["name"] for each in case.facts["candidates"]}):
        raise SystemExit(f"{case.name}: candidates and facts differ: {sorted(set(candidates) ^ named)}")
    shutil.rmtree(case.patches, ignore_errors=True)
    case.patches.mkdir()
    for name, texts in candidates.items():
        patch = _patch(case, texts)
        if not patch:
            raise SystemExit(f"{case.name}: {name} changes nothing")
        (case.patches / f"{name}.patch").write_text(patch, encoding="utf-8")


def candidate_texts(case: Case) -> Mapping[str, Mapping[str, str]]:
    """Return the texts of the files that each candidate changes, by its name and their paths."""
    if case.is_made:
        return algotune.solvers(case.facts, case.upstream_text)
    made: dict[str, Callable[[Sources], dict[str, str]]]
    made = importlib.import_module(f"candidates.{case.name}").CANDIDATES
    return {name: texts(case.sources) for name, texts in made.items()}


def _patch(case: Case, texts: Mapping[str, str]) -> str:
    """Return the difference to the base commit, made in an index of its own: the checkout is left alone."""
    base = case.facts["base_commit"]
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git(case.checkout, "read-tree", base, **index)
        _stage(case, texts, index)
        return git(
            case.checkout, "diff", "--cached", "--no-color", "--no-ext-diff", base, "--", *texts, **index
        )


def pytest_command(case: Case) -> list[str]:
    """Return the command of the case's own tests, without the tool."""
    return [str(case.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *case.facts["test_args"]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="of cases; default: all")
    parser.add_argument(
        "--repositories",
        default="https://github.com/{owner}/{name}",
        metavar="PATTERN",
        help="path or URL with {owner}, {name}",
    )
    parser.add_argument("--work", type=Path, default=WORK, metavar="DIR")
    parser.add_argument("--cases", default="", metavar="A,B", help="the same as NAME NAME")
    add_facts(parser)


def add_facts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--facts", type=Path, default=FACTS, metavar="PATH", help="folder or file; default: facts"
    )


def chosen(options: argparse.Namespace) -> list[Case]:
    names = [*options.names, *(name for name in options.cases.split(",") if name)]
    return load_cases(names, options.work.expanduser().absolute(), options.facts)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    options = parser.parse_args()
    for case in chosen(options):
        build(case, options.repositories)
        print(f"{case.name}: {len(list(case.patches.iterdir()))} candidates in {case.folder}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
