"""`doctor`: is this machine and project fit, and where does every setting come from?"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.options import SHARED, Command, add_settings
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.settings import SETTINGS, Executor, Settings
from codeflash_parallel.config.settings_reader import QUEUE_TABLE, SettingsWithSources, read_settings
from codeflash_parallel.config.settings_table import Parallel, key_of
from codeflash_parallel.queue.queue_settings import read_queue_settings
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault

if TYPE_CHECKING:
    from codeflash_parallel.cli.doctor_race import RaceCheck

#: A healthy interpreter answers in a fraction of a second.
_PROBE_S = 30.0

#: Prints versions; runs in every Python from 3.9 on.
_VERSIONS = """
import importlib.metadata as m, json, platform
def v(n):
    try: return m.version(n)
    except m.PackageNotFoundError: return ""
names = ("pytest", "pytest-xdist", "line_profiler")
print(json.dumps(dict({n: v(n) for n in names}, python=platform.python_version())))
"""

#: Less than this is not enough for a mirror and slots of a middling project.
_LEAST_FREE_BYTES = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at; `problem` says what to do and is empty when all is well."""

    name: str
    value: str
    problem: str = ""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every setting, to see where it would come from."""
    parser.add_argument(
        "--race",
        action="store_true",
        help="Also race identical code: is any of it called faster, and how many seconds does a difference "
        "need here?",
    )
    add_settings(parser, (row for row in SETTINGS.values() if row not in SHARED))


def _doctor(args: argparse.Namespace, output: Output) -> int:
    """Look at everything a run needs; return 4 when something keeps runs from working."""
    project = Path(args.project)
    configured = read_settings(project, os.environ, vars(args))
    rules = read_queue_settings(project, os.environ, {})
    findings = list(_findings(project, configured.settings))
    raced: RaceCheck | None = None
    if args.race:
        try:
            raced = _race(project, configured.settings, findings, output)
        except EnvironmentFault as error:
            findings.append(Finding(name="race", value="", problem=str(error)))
    if output.form.is_text:
        output.write_report(lambda stream: _print(findings, configured, rules, raced, stream))
    else:
        output.write_values(_data(findings, configured, rules, raced))
    return ExitCode.UNFIT if any(finding.problem for finding in findings) else ExitCode.OK


COMMANDS = {"doctor": Command(_add_arguments, _doctor)}


def _findings(project: Path, settings: Settings) -> Iterator[Finding]:
    from codeflash_parallel import __version__
    from codeflash_parallel.config.settings_reader import cache_root

    yield Finding(name="codeflash-parallel", value=f"{__version__}, Python {platform.python_version()}")
    yield Finding(name="system", value=f"{platform.system()} {platform.release()}")
    yield _git()
    yield from _project(project, settings)
    yield _variables(settings)
    yield from _machine(settings)
    yield from _cache(cache_root(settings))
    yield _quiet()
    yield _queue(settings)
    yield from _hosts(project, settings)


def _hosts(project: Path, settings: Settings) -> Iterator[Finding]:
    """Say of each host of the executor whether it could work for the project."""
    if not Executor(settings.executor).is_cluster:
        return
    from codeflash_parallel.hosts.cluster.cluster_probe import ask_hosts

    name = f"executor {settings.executor}"
    try:
        _, interpreter = _project_and_interpreter(project, settings)
        for answer in ask_hosts(settings, interpreter):
            yield Finding(
                name=f"host {answer.host}", value=answer.environment or name, problem=answer.problem
            )
    except CodeflashParallelError as error:
        yield Finding(name=name, value="", problem=str(error))


def _race(project: Path, settings: Settings, findings: list[Finding], output: Output) -> RaceCheck | None:
    """Return what a race of identical code tells; `None` where something else is to be done first."""
    from codeflash_parallel.cli.doctor_race import check_race
    from codeflash_parallel.config.settings_reader import cache_root

    if any(finding.problem for finding in findings):
        findings.append(Finding(name="race", value="not tried: something else is to be done first"))
        return None
    _, interpreter = _project_and_interpreter(project, settings)
    return check_race(settings, interpreter, cache_root(settings), output)


def _project_and_interpreter(project: Path, settings: Settings) -> tuple[Path, Path]:
    from codeflash_parallel.run.setup.project_interpreter import choose_interpreter
    from codeflash_parallel.workspace.git.git_client import find_repository

    repository = find_repository(project)
    folder = repository.root / repository.project
    return folder, choose_interpreter(settings.python, folder, repository.root)


def _queue(settings: Settings) -> Finding:
    """Say where the queue is and what serves it; nothing is made there."""
    from codeflash_parallel.config.settings_reader import queue_folder
    from codeflash_parallel.queue.sync_client import EvalQueueClient

    try:
        folder = queue_folder(settings)
        with EvalQueueClient(folder) as client:
            daemon = client.daemon
    except CodeflashParallelError as error:
        return Finding(name="queue", value="", problem=str(error))
    if daemon is None:
        return Finding(name="queue", value=f"{folder}, no daemon is running")
    busy = f"{daemon.slots_busy} of {daemon.slots} slots busy"
    return Finding(name="queue", value=f"{folder}, served by process {daemon.pid}, {busy}")


def _git() -> Finding:
    git = shutil.which("git")
    if git is None:
        return Finding(name="git", value="", problem="Install git.")
    done = subprocess.run([git, "version"], capture_output=True, text=True, check=False, timeout=_PROBE_S)
    return Finding(name="git", value=done.stdout.strip().removeprefix("git version "))


def _project(project: Path, settings: Settings) -> Iterator[Finding]:
    from codeflash_parallel.workspace.git.git_client import find_repository

    try:
        yield Finding(name="repository", value=str(find_repository(project).root))
        folder, interpreter = _project_and_interpreter(project, settings)
        yield Finding(name="project", value=str(folder))
        yield from _interpreter(interpreter)
        yield from _isolation(interpreter, settings)
    except CodeflashParallelError as error:
        yield Finding(name="project", value=str(project), problem=str(error))


def _interpreter(interpreter: Path) -> Iterator[Finding]:
    if not (has := _versions(interpreter)):
        problem = "It does not run; name another, --python."
        yield Finding(name="interpreter", value=str(interpreter), problem=problem)
        return
    yield Finding(name="interpreter", value=f"{interpreter}, Python {has['python']}")
    missing = "" if has["pytest"] else f"Install pytest there: {interpreter} -m pip install pytest"
    yield Finding(name="pytest", value=has["pytest"] or "missing", problem=missing)
    yield Finding(name="pytest-xdist", value=has["pytest-xdist"] or "missing: long suites run in one process")
    yield Finding(
        name="line_profiler", value=has["line_profiler"] or "missing: our own tracer profiles lines"
    )


def _versions(interpreter: Path) -> dict[str, str]:
    """Return the versions of an interpreter and of what is used there, empty: missing; no entry: it fails."""
    argv = [str(interpreter), "-c", _VERSIONS]
    with suppress(OSError, ValueError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, cwd="/", capture_output=True, check=False, timeout=_PROBE_S)
        found: dict[str, str] = json.loads(done.stdout)
        return found
    return {}


def _isolation(interpreter: Path, settings: Settings) -> Iterator[Finding]:
    """Say of each isolation level whether it works, by running it, and which one a run would have."""
    from codeflash_parallel.sandbox.level_probe import LevelProber, choose
    from codeflash_parallel.sandbox.runner_command import install_runner

    with tempfile.TemporaryDirectory(prefix="codeflash-parallel-doctor-") as scratch:
        cache = Path(scratch)
        prober = LevelProber(interpreter=interpreter, runner_dir=install_runner(cache), cache=cache)
        for probe in prober.every():
            value = f"not here: {probe.why_not}" if probe.why_not else "ok"
            yield Finding(name=f"isolation {probe.level}", value=f"{value}; {probe.note}".removesuffix("; "))
        try:
            level = choose(settings.isolation, settings.require_isolation, prober)
            yield Finding(name="isolation", value=f"{level} ({settings.isolation})")
        except EnvironmentFault as error:
            yield Finding(name="isolation", value=settings.isolation, problem=str(error))


def _variables(settings: Settings) -> Finding:
    """Say what tests and candidates see of the user's environment: names, never values."""
    from codeflash_parallel.config.environment import passed_names, requested_names, withheld_names

    seen = len(passed_names(os.environ, settings.pass_env))
    asked_for = requested_names(os.environ, settings.pass_env)
    kept = withheld_names(os.environ, settings.pass_env)
    by_request = f", {', '.join(asked_for)} by --pass-env" if asked_for else ""
    withheld = f"; withheld unless --pass-env names it: {', '.join(kept)}" if kept else ""
    return Finding(
        name="environment", value=f"{seen} of {len(os.environ)} variables passed on{by_request}{withheld}"
    )


def _quiet() -> Finding:
    """Say whether checks can be kept away from what others time."""
    from codeflash_parallel.config.environment import QUIET_VARIABLE
    from codeflash_parallel.process.host_lock import QUIET_HINT, quiet_folder, why_not_quiet

    why, folder = why_not_quiet(os.environ), quiet_folder(os.environ)
    if not why:
        return Finding(name="quiet", value=f"kept with all users of {folder}")
    if os.environ.get(QUIET_VARIABLE):
        return Finding(name="quiet", value=str(folder), problem=f"{why}. {QUIET_HINT}")
    return Finding(name="quiet", value=f"not here, {why}: others' checks and races run beside what is timed")


def _machine(settings: Settings) -> Iterator[Finding]:
    from codeflash_parallel.process.machine import auto_slots, read_machine

    machine = read_machine()
    yield Finding(name="cores", value=f"{machine.cores}, {machine.quota_cores:g} granted")
    yield Finding(name="memory", value=f"{machine.memory_bytes / 2**30:.1f} GiB available")
    busy = machine.load > machine.cores
    note = "; measurements will be noisy" if busy else ""
    yield Finding(name="load", value=f"{machine.load:.2f} in the last minute{note}")
    yield _at_once(settings.parallel_candidates, auto_slots(machine))


def _at_once(asked: Parallel, fits: int) -> Finding:
    """Say how many checks run at once; what one check takes is only known after the baseline has run."""
    slots = fits if asked == "auto" else asked
    busy = "" if slots <= fits else f", more than the {fits} that the cores and the memory allow"
    unit = "slot" if slots == 1 else "slots"
    fewer = "; fewer checks at once where one keeps more than a core busy, or needs much memory"
    return Finding(name="parallel candidates", value=f"{slots} {unit}{busy}{fewer if slots > 1 else ''}")


def _cache(cache: Path) -> Iterator[Finding]:
    """Say whether the cache can be written, and how slots in it get their files, by trying it there."""
    from codeflash_parallel.workspace.slot.slot_files import SlotKind, clones_work

    existing = next(place for place in (cache, *cache.parents) if os.access(place, os.F_OK))
    try:
        free = shutil.disk_usage(existing).free
        with tempfile.TemporaryDirectory(prefix="codeflash-parallel-doctor-", dir=existing) as scratch:
            slots = SlotKind.REFLINK if clones_work(Path(scratch)) else SlotKind.WORKTREE
    except OSError as error:
        problem = f"{existing} cannot be written ({error.strerror}); name another with --cache-dir."
        yield Finding(name="cache", value=str(cache), problem=problem)
        return
    full = "Free some space, or name another with --cache-dir." if free < _LEAST_FREE_BYTES else ""
    yield Finding(name="cache", value=f"{cache}, {free / 2**30:.1f} GiB free", problem=full)
    yield Finding(name="slots", value=slots)


def _data(
    findings: list[Finding],
    configured: SettingsWithSources[Any],
    rules: SettingsWithSources[Any],
    raced: RaceCheck | None,
) -> dict[str, Any]:
    return {
        "fit": not any(finding.problem for finding in findings),
        "findings": [asdict(finding) for finding in findings],
        "race": [asdict(raced)] if raced is not None else [],
        "settings": _settings_data(configured),
        "queue": _settings_data(rules),
    }


def _settings_data(table: SettingsWithSources[Any]) -> dict[str, Any]:
    plain = to_plain(table.settings)
    return {name: {"value": plain[name], "source": source} for name, source in table.sources.items()}


def _print(
    findings: list[Finding],
    configured: SettingsWithSources[Any],
    rules: SettingsWithSources[Any],
    raced: RaceCheck | None,
    stream: TextIO,
) -> None:
    from codeflash_parallel.report.console import make_console, print_rows

    console = make_console(stream)
    to_do = "to do" if any(f.problem for f in findings) else ""
    print_rows(("doctor", "found", to_do), [(f.name, f.value, f.problem) for f in findings], console)
    console.print()
    if raced is not None:
        print_rows(("race", raced.work), raced.rows(), console)
        console.print()
    rows = [
        (prefix + key_of(name), _shown(getattr(table.settings, name)), source)
        for prefix, table in (("", configured), (f"{QUEUE_TABLE}.", rules))
        for name, source in table.sources.items()
    ]
    print_rows(("setting", "value", "from"), rows, console)


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={number}" for name, number in value.items())
    return " ".join(value) if isinstance(value, tuple) else str(value)
