"""The arms of one layout: a fresh process each, kept until the block is left."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio

from codeflash_parallel.benchmark.plan import BASELINE, Arm, RacePlan
from codeflash_parallel.benchmark.unit import ArmLost, Bench, Template, explained, start_template

#: Seconds in which the kernel must let go of killed processes; beyond them they are left to the launcher.
CLOSE_S = 10.0

#: Seconds that imports and the loading of inputs may take.
READY_S = 120.0


class Field:
    """Templates by arm, and why the lost ones were lost. Made by `open_field`."""

    def __init__(self) -> None:
        self.templates: dict[str, Template] = {}
        self.lost: dict[str, ArmLost] = {}

    async def lose(self, arm: str, error: ArmLost) -> None:
        """Close an arm and keep the reason."""
        ended = await self.templates.pop(arm).close()
        self.lost[arm] = explained(error, ended)

    async def close(self) -> None:
        """Close every arm."""
        async with anyio.create_task_group() as tasks:
            for template in self.templates.values():
                tasks.start_soon(template.close)


@asynccontextmanager
async def open_field(
    bench: Bench, arms: Sequence[Arm], plan: RacePlan, hash_seed: int
) -> AsyncIterator[Field]:
    """Start every arm and wait until it is ready or lost; all are killed when the block is left.

    The baseline comes first in `arms`; where it is lost, nothing else is waited for.
    """
    field = Field()
    try:
        for arm in arms:
            field.templates[arm.id] = await start_template(bench, arm, plan, hash_seed)
        for arm_id, template in tuple(field.templates.items()):
            try:
                await template.ready(READY_S)
                _compare(template, field.templates[BASELINE])
            except ArmLost as error:
                await field.lose(arm_id, error)
                if arm_id == BASELINE:
                    break
        yield field
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await field.close()


def _compare(template: Template, baseline: Template) -> None:
    """Refuse an arm that loaded other work than the baseline did."""
    if template.cycles != baseline.cycles:
        raise ArmLost(f"could load {sum(template.cycles)} of {sum(baseline.cycles)} inputs")
