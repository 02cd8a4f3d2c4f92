"""Setup of an evaluator: settings, repository, shares of the machine, interpreter, isolation."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_session import RunnerConfig, TestRequest
from codeflash_parallel.config.environment import project_environment, requested_names
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.process.launcher.launcher import Launcher
from codeflash_parallel.process.machine import Machine, auto_slots, read_machine
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.isolation_policy import (
    IsolationLevel,
    IsolationPolicy,
    RunnerLimits,
)
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter, copied_encoders
from codeflash_parallel.sandbox.level_probe import LevelProber, choose, secrets_of
from codeflash_parallel.workspace.git.git_client import Repository
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

_MIB = 1 << 20
#: What private memory is asked for may be so many times what is resident: a backstop, not the limit.
_BEHIND = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """Everything that an evaluator is given. Made by `set_up`.

    Attributes:
        runner_dir: the installed runner.
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
    runner_dir: Path
    quiet: HostLock
    cache: Path
    home: Path
    machine: Machine
    shares: Shares
    interpreter: Path
    isolation: IsolationPolicy

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

    def environment(self, private: Path, number: int) -> Mapping[str, str]:
        """Return the environment of the slot of a number.

        Args:
            private: the slot's private folder.
        """
        pass_env = self.settings.pass_env
        return project_environment(os.environ, private=private, number=number, pass_env=pass_env)

    def runner(self, targets: tuple[Target, ...], snapshot: Snapshot, seed: int) -> RunnerConfig:
        """Return what all runners of a run have in common."""
        settings = self.settings
        return RunnerConfig(
            launcher=self.launcher,
            directory=self.runner_dir,
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
    runner_dir: Path,
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
    prober = LevelProber(interpreter=interpreter, runner_dir=runner_dir, cache=cache)
    level = choose(settings.isolation, settings.require_isolation, prober)
    return Setup(
        settings=settings,
        repository=repository,
        launcher=launcher,
        mirror=mirror,
        runner_dir=runner_dir,
        quiet=quiet,
        cache=cache,
        home=cache / repository.key,
        machine=machine,
        shares=shares,
        interpreter=interpreter,
        isolation=_isolation_policy(settings, repository, level, cache, shares.memory_bytes),
    )


def _isolation_policy(
    settings: Settings, repository: Repository, level: IsolationLevel, cache: Path, memory_bytes: int
) -> IsolationPolicy:
    """Return what the processes of every slot may see and do.

    Args:
        memory_bytes: limit of one check.

    Raises:
        UsageError: `BAD_SETTING`, a path that may be written to is not there.
    """
    roots = {str(path) for path in _places_of(repository)}
    outermost = sorted(root for root in roots if not any(str(p) in roots for p in Path(root).parents))
    held = os.path.realpath(cache)
    return IsolationPolicy(
        level=level,
        network=settings.allow_network,
        writable=tuple(_granted(path, (*outermost, held)) for path in settings.allow_write),
        hidden=(*outermost, *secrets_of(os.environ)),
        cache=held,
        limits=RunnerLimits(
            file_bytes=settings.file_size_limit * _MIB,
            open_files=settings.open_files_limit,
            processes=settings.processes_limit,
            data_bytes=_BEHIND * memory_bytes,
            disk_bytes=settings.disk_limit * _MIB,
        ),
    )


def _places_of(repository: Repository) -> tuple[Path, ...]:
    return (repository.root, repository.git_dir, repository.common_dir, repository.installed)


def _granted(path: str, never: Sequence[str]) -> str:
    """Return the real path that may be written to, which shares nothing with the checkout or our cache."""
    found = os.path.realpath(Path(path).expanduser())
    if not Path(found).exists():
        raise UsageError("BAD_SETTING", f"allow_write names {path}, which is not there.")
    shared = [place for place in never if os.path.commonpath((found, place)) in {found, place}]
    if shared:
        raise UsageError("BAD_SETTING", f"allow_write names {path}, and nobody may write to {shared[0]}.")
    return found


#: Memory that is never given to checks: for the evaluator, git and the page cache.
_RESERVED_BYTES = 512 * 1024 * 1024
#: No check is given less: an interpreter with a scientific stack needs that much.
_LEAST_BYTES = 512 * 1024 * 1024
#: No check is given less than this many times what the baseline takes: it replays calls besides, in a fork
#: whose template's pages count in full.
_LEAST_FACTOR = 1.25
#: A shorter run of the baseline tells nothing of its use of cores: clocks are rounded.
_SHORTEST_NS = 1_000_000
#: A share is not less than this many times what the baseline takes, either: a candidate may take more.
_SHARE_FACTOR = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """Resources that may be used.

    Attributes:
        slots: how many candidates are evaluated at once.
        cores: cores' worth of CPU time that checks may use.
        free_bytes: what all checks and servers together may hold.
        memory_bytes: the memory limit of one check, as long as nothing is known of the baseline.
    """

    slots: int
    cores: float
    free_bytes: int
    memory_bytes: int


def shares_of(machine: Machine, settings: Settings, sharers: int = 1) -> Shares:
    """Return what the settings ask for, else a fair share of what is available.

    Args:
        sharers: how many evaluators share the machine's memory: a daemon's workers.
    """
    wanted = settings.parallel_candidates
    slots = auto_slots(machine) if wanted == "auto" else wanted
    free_bytes = max(0, machine.memory_bytes - _RESERVED_BYTES) // sharers
    fair_bytes = max(free_bytes // (slots + 1), _LEAST_BYTES)
    return Shares(
        slots=slots,
        cores=min(float(machine.cores), machine.quota_cores),
        free_bytes=free_bytes,
        memory_bytes=settings.memory_limit * _MIB if settings.memory_limit else fair_bytes,
    )


def memory_limit_of(shares: Shares, settings: Settings, baseline_bytes: int) -> int:
    """Return the memory limit of one check, in bytes, when it is known what the baseline takes.

    Args:
        baseline_bytes: largest resident size of the baseline's run.

    Raises:
        UsageError: `BAD_SETTING`, a limit was asked for that the baseline itself would not keep.
    """
    if not settings.memory_limit:
        return max(shares.memory_bytes, _SHARE_FACTOR * baseline_bytes)
    least_mib = ceil(_LEAST_FACTOR * baseline_bytes / _MIB)
    if settings.memory_limit < least_mib:
        raise UsageError(
            "BAD_SETTING",
            f"memory_limit is {settings.memory_limit} MiB, and the baseline's own tests take "
            f"{ceil(baseline_bytes / _MIB)} MiB.",
            f"A check takes up to a quarter more: give at least {least_mib}, or 0 for a fair share.",
        )
    return shares.memory_bytes


def checks_at_once(shares: Shares, slots: int, baseline: Baseline, server_bytes: int = 0) -> int:
    """Return how many checks may run at the same time: at least one, at most one a slot.

    Limited by cores and memory, as the baseline needs them.

    Args:
        slots: that exist.
        baseline: a draft will do.
        server_bytes: resident memory of one slot's servers.
    """
    is_measured = baseline.wall_ns >= _SHORTEST_NS and baseline.cpu_ns > 0
    cores_each = baseline.cpu_ns / baseline.wall_ns if is_measured else 1.0
    bytes_each = baseline.rss_bytes + server_bytes
    by_cores = floor(shares.cores / cores_each + 0.5)
    by_memory = shares.free_bytes // bytes_each if bytes_each else slots
    return max(1, min(slots, by_cores, by_memory))
