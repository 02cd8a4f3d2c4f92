"""What all calls of an evaluator have in common: settings, repository, machine, interpreter, isolation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.session.runner_session import RunnerConfig, TestRequest
from codeflash_parallel.config.cache_paths import cache_root
from codeflash_parallel.config.environment_allowlist import requested_names
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.environment import project_environment
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.process.launcher.launcher import Launcher
from codeflash_parallel.process.machine import Machine, read_machine
from codeflash_parallel.run.setup.isolation_choice import Isolation, isolation_of
from codeflash_parallel.run.setup.machine_shares import Shares, shares_of
from codeflash_parallel.run.setup.project_interpreter import choose_interpreter
from codeflash_parallel.run.setup.user_encoders import copied_encoders
from codeflash_parallel.workspace.git.repository import Repository
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot


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
