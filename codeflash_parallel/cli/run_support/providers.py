"""Providers that the command line names: commands, or Python callables in a process of their own."""

from __future__ import annotations

import argparse
from pathlib import Path

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.providers import Providers


def provided(args: argparse.Namespace, settings: Settings) -> Providers:
    """Return the repairer and the refiner, where one is named.

    Raises:
        UsageError: one is named twice, or cannot be run.
    """
    cwd = str(Path(args.project).resolve())
    repair = _one("repairer", args.repairer, "repair_command", settings.repair_command)
    refine = ""
    if "refiner" in args:  # `check` has no race, hence nothing to refine
        refine = _one("refiner", args.refiner, "refine_command", settings.refine_command)
    return Providers.of(repair, refine, deadline_s=settings.provider_timeout, cwd=cwd)


def named(args: argparse.Namespace, settings: Settings) -> Providers:
    """Return the providers that the command line names, without those of the settings.

    Raises:
        UsageError: one cannot be run.
    """
    cwd, deadline_s = str(Path(args.project).resolve()), settings.provider_timeout
    return Providers.of(args.repairer, args.refiner, deadline_s=deadline_s, cwd=cwd)


def _one(option: str, name: str, setting: str, command: str) -> str:
    if name and command:
        key = setting.replace("_", "-")
        raise UsageError("BAD_ARGUMENTS", f"--{option} and {key} are both given.", "Give one of them.")
    return name or command
