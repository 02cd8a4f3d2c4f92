"""Where commands get their evaluator from."""

from __future__ import annotations

from pathlib import Path

from codeflash_parallel.cli.evaluator_host import SingleUse, current_host, hosted_by
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.run.evaluator import Evaluator


async def answer() -> int:
    return 42


def test_a_command_has_its_own_unless_it_is_hosted() -> None:
    own = current_host()
    assert isinstance(own, SingleUse)
    assert own.run(answer) == 42
    assert isinstance(own.lend(Path(), Settings()), Evaluator)
    with hosted_by(SingleUse()):
        assert current_host() is not own
    assert current_host() is own
