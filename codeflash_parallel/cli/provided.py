"""Providers that the command line names: commands, or Python callables in a process of their own."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.model.errors import UsageError
from codeflash_parallel.model.providers import Refiner, Repairer
from codeflash_parallel.model.settings import Settings
from codeflash_parallel.repair.commands import command_refiner, command_repairer


@dataclass(frozen=True, kw_only=True, slots=True)
class Provided:
    """Who answers; `None` is nobody."""

    repairer: Repairer | None = None
    refiner: Refiner | None = None


def provided(args: argparse.Namespace, settings: Settings) -> Provided:
    """Return the repairer and the refiner, where one is named.

    Raises:
        UsageError: one is named twice, or cannot be run.
    """
    cwd = str(Path(args.project).resolve())
    repair = _one("repairer", args.repairer, "repair_command", settings.repair_command)
    refine = ""
    if "refiner" in args:  # `check` has no race, hence nothing to refine
        refine = _one("refiner", args.refiner, "refine_command", settings.refine_command)
    deadline_s = settings.provider_timeout
    return Provided(
        repairer=command_repairer(repair, deadline_s=deadline_s, cwd=cwd) if repair else None,
        refiner=command_refiner(refine, deadline_s=deadline_s, cwd=cwd) if refine else None,
    )


def named(args: argparse.Namespace, settings: Settings) -> Provided:
    """Return the providers that the command line names, without those of the settings.

    Raises:
        UsageError: one cannot be run.
    """
    cwd, deadline_s = str(Path(args.project).resolve()), settings.provider_timeout
    return Provided(
        repairer=command_repairer(args.repairer, deadline_s=deadline_s, cwd=cwd) if args.repairer else None,
        refiner=command_refiner(args.refiner, deadline_s=deadline_s, cwd=cwd) if args.refiner else None,
    )


def _one(option: str, name: str, setting: str, command: str) -> str:
    if name and command:
        key = setting.replace("_", "-")
        raise UsageError("BAD_ARGUMENTS", f"--{option} and {key} are both given.", "Give one of them.")
    return name or command
