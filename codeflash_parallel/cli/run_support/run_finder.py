"""Where earlier runs are: the repository around the project, and the cache."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeflash_parallel.config.settings_reader import read_settings

if TYPE_CHECKING:
    from codeflash_parallel.workspace.git.repository import Repository


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinder:
    """A repository and the cache that holds its runs."""

    repository: Repository
    cache: Path

    def run_dir(self, name: str) -> Path:
        """Return the folder of a run by its id, the beginning of its id, or `last`: that has a result.

        Raises:
            UsageError: there is none, or several.
        """
        from codeflash_parallel.run.run_folder import find_run

        return find_run(self.cache / self.repository.key, name, with_result=True)

    def begun_run_dir(self, name: str) -> Path:
        """Return the folder of a run as `run_dir` does; `last` is the last one that was begun.

        Raises:
            UsageError: there is none, or several.
        """
        from codeflash_parallel.run.run_folder import find_run

        return find_run(self.cache / self.repository.key, name, with_result=False)

    def documents(self) -> list[dict[str, Any]]:
        """Return the documents of all runs, the latest first."""
        from codeflash_parallel.run.run_folder import list_runs

        return list_runs(self.cache / self.repository.key)


def find_places(args: argparse.Namespace) -> RunFinder:
    """Find everything from the options that every command has.

    Raises:
        UsageError: not a repository, or a bad setting.
    """
    from codeflash_parallel.config.cache_paths import cache_root
    from codeflash_parallel.workspace.git.repository import find_repository

    project = Path(args.project)
    settings = read_settings(project, os.environ, vars(args)).settings
    return RunFinder(repository=find_repository(project), cache=cache_root(settings))


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names an earlier run."""
    parser.add_argument(
        "run_name", metavar="RUN", nargs="?", default="last",
        help="Id of the run, the beginning of it, or last. Default: last.",
    )  # fmt: skip
