"""What all calls of an evaluator have in common: settings, repository, machine, interpreter, isolation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.session.pytest_arguments import TestRequest
from codeflash_parallel.check.session.runner_session import RunnerConfig, first_run_spec, hashed, run_guest
from codeflash_parallel.config.cache_paths import cache_root
from codeflash_parallel.config.environment_allowlist import requested_names
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.environment import HASH_SEEDS, project_environment
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.process.launcher.launcher import Launcher
from codeflash_parallel.process.machine import Machine, read_machine
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.isolation_policy import (
    GuestLimits,
    IsolationLevel,
    IsolationPolicy,
    missing_rights,
    reached_limits,
)
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.setup.machine_shares import Shares, shares_of
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter, copied_encoders
from codeflash_parallel.sandbox.level_probe import LevelProber, choose, secrets_of
from codeflash_parallel.workspace.git.repository import Repository
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot
from codeflash_parallel.workspace.snapshot.snapshot_request import SnapshotRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What is given. Made by `set_up`.

    Attributes:
        guest_dir: the installed guest.
        quiet: keeps checks, of other processes too, away from what is timed.
        cache: the user's cache folder.
        home: the repository's folder in it.
        shares: what of the machine may be used.
        interpreter: absolute path of the project's Python.
    """

    settings: Settings
    repository: Repository
    launcher: Launcher
    mirror: Mirror
    guest_dir: Path
    quiet: HostLock
    cache: Path
    home: Path
    machine: Machine
    shares: Shares
    interpreter: Path
    isolation: Isolation

    def run_dir(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.home / "runs" / run_id

    @property
    def project(self) -> Path:
        """Return the project's folder in the user's tree."""
        return self.repository.root / self.repository.project

    @property
    def pass_env(self) -> tuple[str, ...]:
        """Return the names of the variables that are passed on because they were asked for."""
        return requested_names(os.environ, self.settings.pass_env)

    @property
    def snapshot_request(self) -> SnapshotRequest:
        """Return what snapshots are taken of."""
        settings = self.settings
        ignored, extra = settings.include_ignored, settings.extra_tests
        judge = (settings.accept.partition("::")[0],) if settings.accept else ()
        return SnapshotRequest(
            base=settings.base, include_ignored=ignored, extra_tests=extra, protected=judge
        )

    def environment(self, private: Path, number: int) -> Mapping[str, str]:
        """Return the environment of the slot of a number.

        Args:
            private: the slot's private folder.
        """
        pass_env = self.settings.pass_env
        return project_environment(os.environ, private=private, number=number, pass_env=pass_env)

    def guest(self, targets: tuple[Target, ...], snapshot: Snapshot, seed: int) -> RunnerConfig:
        """Return what all guests of a run have in common."""
        settings = self.settings
        return RunnerConfig(
            runner=self.launcher,
            directory=self.guest_dir,
            targets=targets,
            request=TestRequest(paths=settings.tests, keyword=settings.keyword, marker=settings.marker),
            seed=seed,
            overlaid=(snapshot.extra_tests,) if snapshot.extra_tests else (),
            encoders=copied_encoders(
                settings.encoders, self.project, self.interpreter, self.home / "encoders"
            ),
            judged=bool(settings.accept),
        )


def set_up(
    settings: Settings,
    repository: Repository,
    launcher: Launcher,
    mirror: Mirror,
    guest_dir: Path,
    quiet: HostLock,
    sharers: int = 1,
) -> Setup:
    """Look at the machine, choose interpreter and isolation level. Blocks: it may try levels.

    Raises:
        UsageError: a bad interpreter, or a path that may be written to and is not there.
        EnvironmentFault: `NO_ISOLATION`.
    """
    cache, machine = cache_root(settings), read_machine()
    shares = shares_of(machine, settings, sharers)
    project = repository.root / repository.project
    interpreter = choose_interpreter(settings.python, project, repository.root)
    place = (interpreter, guest_dir, cache)
    return Setup(
        settings=settings,
        repository=repository,
        launcher=launcher,
        mirror=mirror,
        guest_dir=guest_dir,
        quiet=quiet,
        cache=cache,
        home=cache / repository.key,
        machine=machine,
        shares=shares,
        interpreter=interpreter,
        isolation=isolation_of(settings, repository, place, shares.memory_bytes),
    )


_MIB = 1 << 20
#: What private memory is asked for may be so many times what is resident: a backstop, not the limit.
_BEHIND = 4
_LIMITS = ProcessLimits(wall_s=3600.0)
#: How many test ids the message names.
_NAMED = 5
_BAD = ("failed", "error")


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """What is in force in a run.

    Attributes:
        requested: the setting.
        policy: of every slot.
    """

    requested: str
    policy: IsolationPolicy

    @property
    def level(self) -> IsolationLevel:
        """The level."""
        return self.policy.level


def isolation_of(
    settings: Settings, repository: Repository, place: tuple[Path, Path, Path], memory_bytes: int
) -> Isolation:
    """Choose a level and make its policy; tries levels where that is not known. Blocks.

    Args:
        settings: of the run.
        repository: the user's, which is hidden.
        place: interpreter, guest and cache.
        memory_bytes: limit of one check.

    Raises:
        EnvironmentFault: `NO_ISOLATION`, what was asked for or required does not work here.
        UsageError: `BAD_SETTING`, a path that may be written to is not there.
    """
    interpreter, guest_dir, cache = place
    prober = LevelProber(interpreter=interpreter, guest_dir=guest_dir, cache=cache)
    level = choose(settings.isolation, settings.require_isolation, prober)
    return Isolation(
        requested=settings.isolation, policy=_policy(settings, repository, level, cache, memory_bytes)
    )


def _policy(
    settings: Settings, repository: Repository, level: IsolationLevel, cache: Path, memory_bytes: int
) -> IsolationPolicy:
    roots = {str(path) for path in (repository.root, repository.git_dir, repository.common_dir)}
    outermost = sorted(root for root in roots if not any(str(p) in roots for p in Path(root).parents))
    held = os.path.realpath(cache)
    return IsolationPolicy(
        level=level,
        network=settings.allow_network,
        writable=tuple(_granted(path, (*outermost, held)) for path in settings.allow_write),
        hidden=(*outermost, *secrets_of(os.environ)),
        cache=held,
        limits=GuestLimits(
            file_bytes=settings.file_size_limit * _MIB,
            open_files=settings.open_files_limit,
            processes=settings.processes_limit,
            data_bytes=_BEHIND * memory_bytes,
            disk_bytes=settings.disk_limit * _MIB,
        ),
    )


def _granted(path: str, never: Sequence[str]) -> str:
    """Return the real path that may be written to, which shares nothing with the checkout or our cache."""
    found = os.path.realpath(Path(path).expanduser())
    if not Path(found).exists():
        raise UsageError("BAD_SETTING", f"allow_write names {path}, which is not there.")
    shared = [place for place in never if os.path.commonpath((found, place)) in {found, place}]
    if shared:
        raise UsageError("BAD_SETTING", f"allow_write names {path}, and nobody may write to {shared[0]}.")
    return found


async def explained(fault: EnvironmentFault, guest: RunnerConfig, workspace: Workspace) -> EnvironmentFault:
    """Return what to say of a baseline that is red: it met a limit, or lacks a right that its level takes.

    For the latter its tests are run once more at `none`.

    Args:
        fault: what was found at the level.
        guest: of the run.
        workspace: the baseline's slot; whoever calls restores it.
    """
    level = workspace.isolation.level
    if fault.code not in {"RED_BASELINE", "BASELINE_CRASHED", "NO_TESTS"}:
        return fault
    if flags := reached_limits(fault.message):
        return _without_more(fault, flags)
    if level is IsolationLevel.NONE:
        return fault
    free = replace(hashed(workspace, HASH_SEEDS[0]), isolation=IsolationPolicy())
    session = await run_guest(guest, free, first_run_spec(guest, free), _LIMITS)
    outcomes = session.report.tests.values()
    if not session.report.collected or any(test.outcome in _BAD for test in outcomes):
        return fault
    return _only_confined(fault, level)


def _only_confined(fault: EnvironmentFault, level: IsolationLevel) -> EnvironmentFault:
    """Return the fault of a baseline that is green without isolation."""
    message = (
        f"{fault.message} It is green without isolation: what it misses is a right that level {level} takes."
    )
    flags = missing_rights(fault.message)
    granted = f"{' or '.join(flags)} would grant it" if flags else _ANY
    return EnvironmentFault("RED_BASELINE", message, f"{granted}; --isolation none takes no right.")


def _without_more(fault: EnvironmentFault, flags: Sequence[str]) -> EnvironmentFault:
    """Return the fault of a baseline that met limits; of a traceback, only the end."""
    said, traceback, after = fault.message.partition("Traceback (")
    said += after.strip().splitlines()[-1] if traceback else ""
    return EnvironmentFault(fault.code, said, f"{' or '.join(flags)} gives it more.")


_ANY = "Grant it by --allow-network, --allow-write PATH or --pass-env NAME"


def key_of(policy: IsolationPolicy) -> tuple[object, ...]:
    """Return what findings about the baseline depend on, of a policy: not where things lie, but rights.

    The backstop behind the memory limit follows what memory is free at the moment: with it, no baseline
    would be found again by another process.
    """
    rights = policy.as_spec()
    limits = {name: value for name, value in rights["limits"].items() if name != "data_bytes"}
    return (*(rights[name] for name in ("level", "network", "writable")), limits)
