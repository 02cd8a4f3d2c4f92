"""mutmut's own mutants as candidates of `check --compare pass-fail`: the same killed set, and at which rate?

    python benchmarks/mutants.py [--modules boltons toolz packaging] [--jobs 2] [--sample 10] [--new-process]

mutmut makes the mutants and judges them; then each one, as the text of the changed module, is a candidate of
ours. Both rates are over the whole command: mutmut's making of mutants, statistics and clean run, our
snapshot, baseline and selection. That mutants come to us ready-made is said beside it: what their texts cost
to write. cosmic-ray judges a sample of its own mutants. Both tools are installed into an environment of their
own; of them only facts are kept.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workloads import (
    LONGEST_S,
    Candidate,
    Checked,
    Prepared,
    Workload,
    machine,
    manifest_of,
    prepare,
    seconds_of,
)

MODULES = {
    workload.kind: workload
    for workload in (
        Workload(
            kind="boltons",
            pin="boltons==26.2.0",
            path="boltons/mathutils.py",
            functions=(),
            tests=("tests/test_mathutils.py",),
        ),
        Workload(
            kind="toolz",
            pin="toolz==1.2.0",
            path="toolz/dicttoolz.py",
            functions=(),
            tests=("toolz/tests/test_dicttoolz.py",),
        ),
        Workload(
            kind="packaging",
            pin="packaging==26.3",
            path="src/packaging/utils.py",
            functions=(),
            tests=("tests/test_utils.py",),
            editable=True,
        ),
    )
}
#: What mutmut's exit codes of a mutant's tests mean; any other one is a test that passed or did not run.
KILLED = frozenset({1, 3, -11, -24, 24, 36, 152, 255})

#: Runs in mutmut's environment and folder: writes the text of the module with each mutant in its place.
WRITE_TEXTS = """
import json, pathlib, sys
from mutmut.mutation.diff_apply import apply_mutant
path, out = map(pathlib.Path, sys.argv[1:3])
original = path.read_text(encoding="utf-8")
names = json.loads(pathlib.Path("mutants", f"{path}.meta").read_text())["exit_code_by_key"]
with out.open("w") as file:
    for name in names:
        apply_mutant(name)
        file.write(json.dumps([name, path.read_text(encoding="utf-8")]) + "\\n")
        path.write_text(original, encoding="utf-8")
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Theirs:
    """mutmut's verdicts: exit codes by mutant; seconds of the whole command; the mutants' texts."""

    exits: Mapping[str, int | None]
    wall_s: float
    candidates: tuple[Candidate, ...]
    writing_s: float

    @property
    def killed(self) -> set[str]:
        return {name for name, status in self.exits.items() if status in KILLED}


def make_environment(folder: Path) -> Path:
    venv = folder / "tools"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    tools = ["mutmut>=3", "cosmic-ray", "pytest"]
    command = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", *tools]
    subprocess.run(command, check=True, capture_output=True)
    return venv


def run_mutmut(prepared: Prepared, venv: Path, jobs: int) -> Theirs:
    """Let mutmut judge its mutants in a copy of the repository, and write their texts down."""
    workload = prepared.workload
    copy = prepared.place.state / "mutmut"
    shutil.copytree(prepared.place.repository, copy)
    configure(copy, workload)
    command = [str(venv / "bin" / "mutmut"), "run", "--max-children", str(jobs)]
    wall_s = seconds_of(lambda: run(command, copy, prepared))
    meta = json.loads((copy / "mutants" / f"{workload.path}.meta").read_text(encoding="utf-8"))
    texts = prepared.place.state / "texts.jsonl"
    write = [str(venv / "bin" / "python"), "-c", WRITE_TEXTS, workload.path, str(texts)]
    writing_s = seconds_of(lambda: run(write, copy, prepared))
    lines = map(json.loads, texts.read_text(encoding="utf-8").splitlines())
    return Theirs(
        exits=meta["exit_code_by_key"],
        wall_s=wall_s,
        candidates=tuple(Candidate(id=name, text=text) for name, text in lines),
        writing_s=writing_s,
    )


def configure(copy: Path, workload: Workload) -> None:
    lines = ["[mutmut]", f"source_paths={workload.path.partition('/')[0]}", f"only_mutate={workload.path}"]
    lines.append("pytest_add_cli_args_test_selection=" + "\n    ".join(["", *workload.tests]))
    (copy / "setup.cfg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def run(command: list[str], where: Path, prepared: Prepared) -> str:
    done = subprocess.run(
        command,
        cwd=where,
        env=dict(prepared.place.environment),
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command[:3]}: {done.stdout[-1000:]} {done.stderr[-2000:]}")
    return done.stdout


def ours_killed(checked: Checked) -> set[str]:
    """Return what we reject; a duplicate shares the verdict of the one it equals."""
    by_id: dict[str, Any] = {c["id"]: c for c in checked.document["candidates"]}

    def rejected(candidate: Mapping[str, Any]) -> bool:
        original = by_id.get(candidate["duplicate_of"])
        return rejected(original) if original else candidate["status"] == "rejected"

    return {name for name, candidate in by_id.items() if rejected(candidate)}


def run_cosmic_ray(prepared: Prepared, venv: Path, sample: int) -> float:
    """Judge some of cosmic-ray's mutants with its local distributor; return mutants per second."""
    copy = prepared.place.state / "cosmic-ray"
    shutil.copytree(prepared.place.repository, copy)
    tests = " ".join(prepared.workload.tests)
    command = f"{prepared.python} -m pytest -q -x -p no:cacheprovider {tests}"
    lines = ["[cosmic-ray]", f'module-path = "{prepared.workload.path}"', "timeout = 20.0"]
    lines += ["excluded-modules = []", f'test-command = "{command}"']
    lines += ["[cosmic-ray.distributor]", 'name = "local"', ""]
    (copy / "cosmic-ray.toml").write_text("\n".join(lines), encoding="utf-8")
    tool = str(venv / "bin" / "cosmic-ray")
    run([tool, "init", "cosmic-ray.toml", "session.sqlite"], copy, prepared)
    with sqlite3.connect(copy / "session.sqlite") as session:
        kept = "(SELECT job_id FROM work_items ORDER BY job_id LIMIT ?)"
        for table in ("mutation_specs", "work_items"):
            session.execute(f"DELETE FROM {table} WHERE job_id NOT IN {kept}", (sample,))
        ((count,),) = session.execute("SELECT COUNT(*) FROM work_items")
    session.close()
    return count / seconds_of(
        lambda: run([tool, "exec", "cosmic-ray.toml", "session.sqlite"], copy, prepared)
    )


def measure(kind: str, options: argparse.Namespace, venv: Path, folder: Path) -> None:
    prepared = prepare(MODULES[kind], folder)
    theirs = run_mutmut(prepared, venv, options.jobs)
    count = len(theirs.candidates)
    print(f"\n{prepared.workload.pin} {prepared.workload.path}: {count} mutants")
    rate = count / theirs.wall_s
    print(f"  mutmut        {theirs.wall_s:7.1f} s whole {rate:6.1f} a second, {len(theirs.killed)} killed")
    manifest = manifest_of(prepared, theirs.candidates, prepared.place.state / "mutants.jsonl")
    for flags in ((), ("--new-process",)) if options.new_process else ((),):
        own = prepared.with_cache(f"cache-{len(flags)}")
        checked = own.check(manifest, "--compare", "pass-fail", "-j", str(options.jobs), *flags)
        show(" ".join(["ours", *flags]), checked, theirs)
    print(f"  (writing the mutants' texts for us: {theirs.writing_s:.1f} s, in no rate)")
    if options.sample:
        rate = run_cosmic_ray(prepared, venv, options.sample)
        print(f"  cosmic-ray    {rate:6.2f} a second on a sample of {options.sample}", flush=True)


def show(name: str, checked: Checked, theirs: Theirs) -> None:
    count, killed = len(theirs.candidates), ours_killed(checked)
    rate, judging = count / checked.wall_s, count / checked.judging_s
    ratio = theirs.wall_s / checked.wall_s
    print(
        f"  {name:14}{checked.wall_s:7.1f} s whole {rate:6.1f} a second, {len(killed)} killed; "
        f"{ratio:.2f} x mutmut; judging only {judging:.1f} a second"
    )
    print(f"    {checked.steps}")
    reasons = {c["id"]: f"{c['status']} {c['code']}: {c['reason']}" for c in checked.document["candidates"]}
    for mutant in sorted(killed ^ theirs.killed):
        print(f"    differs: {mutant}: mutmut's exit {theirs.exits[mutant]}; ours {reasons[mutant]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", nargs="+", default=list(MODULES), choices=list(MODULES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sample", type=int, default=10, help="how many mutants of cosmic-ray; 0: none")
    parser.add_argument("--new-process", action="store_true", help="ours with --new-process as well")
    parser.add_argument("--environment", default="", help="environment that has mutmut and cosmic-ray")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        venv = Path(options.environment) if options.environment else make_environment(Path(name))
        for kind in options.modules:
            measure(kind, options, venv.absolute(), Path(name))
    print(f"\nload {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
