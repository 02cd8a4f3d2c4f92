"""Providers of a run: the callables that are given, else the commands of the settings."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.repair.command_providers import CommandProvider, command_provider
from codeflash_parallel.repair.provider_protocol import Refiner, Repairer
from codeflash_parallel.run.run_state import ProviderCommand, RunRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Providers:
    """The repairer and the refiner of a run, where there are some."""

    repairer: Repairer | None = None
    refiner: Refiner | None = None

    @classmethod
    def of(cls, repair: str, refine: str, *, deadline_s: float, cwd: str = "") -> Providers:
        """Return the providers that two texts name, see `command_provider`; an empty one names none.

        Raises:
            UsageError: `BAD_COMMAND` when one cannot be run.
        """
        return cls(
            repairer=command_provider(repair, "repair", deadline_s=deadline_s, cwd=cwd) if repair else None,
            refiner=command_provider(refine, "refine", deadline_s=deadline_s, cwd=cwd) if refine else None,
        )

    def completed(self, settings: Settings) -> Providers:
        """Return the providers with those that the settings name."""
        repair = "" if self.repairer else settings.repair_command
        refine = "" if self.refiner else settings.refine_command
        named = Providers.of(repair, refine, deadline_s=settings.provider_timeout)
        return Providers(repairer=self.repairer or named.repairer, refiner=self.refiner or named.refiner)

    def resumed(self, request: RunRequest, deadline_s: float) -> Providers:
        """Return the providers with the commands that a run had."""
        repairer, refiner = self.repairer, self.refiner
        if repairer is None and request.repairer and request.repairer.argv:
            repairer = CommandProvider(**asdict(request.repairer), deadline_s=deadline_s)
        if refiner is None and request.refiner and request.refiner.argv:
            refiner = CommandProvider(**asdict(request.refiner), deadline_s=deadline_s)
        return Providers(repairer=repairer, refiner=refiner)

    def missing(self, request: RunRequest) -> list[str]:
        """Return one sentence for each provider that a run had and that is not there any more."""
        both = (
            ("repairer", request.repairer, self.repairer),
            ("refiner", request.refiner, self.refiner),
        )
        return [
            f"The run had a {name} that is a callable; it is not given now, and asked nothing more."
            for name, had, has in both
            if had is not None and has is None
        ]


def command_of(provider: object) -> ProviderCommand | None:
    """Return the command of a provider, without arguments for a Python callable."""
    if provider is None:
        return None
    if not isinstance(provider, CommandProvider):
        return ProviderCommand()
    return ProviderCommand(argv=provider.argv, cwd=str(Path(provider.cwd or os.curdir).resolve()))
