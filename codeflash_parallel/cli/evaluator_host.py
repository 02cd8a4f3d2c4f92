"""Host of the evaluator of a command: this command alone, or a background process that keeps evaluators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from codeflash_parallel.config.settings import Settings
    from codeflash_parallel.run.evaluator import Evaluator

_T = TypeVar("_T")


class EvaluatorHost(Protocol):
    """An event loop, and evaluators for it."""

    def run(self, work: Callable[[], Awaitable[_T]], /) -> _T:
        """Run work on the event loop and return its result."""

    def lend(self, project: Path, settings: Settings, /) -> AbstractAsyncContextManager[Evaluator]:
        """Give an open evaluator for a block, on the event loop."""


class SingleUse:
    """The host of a command that is its own process: everything is new, and ends with the command."""

    def run(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Run work on an event loop of its own."""
        import anyio

        return anyio.run(work, backend="asyncio")

    def lend(self, project: Path, settings: Settings) -> AbstractAsyncContextManager[Evaluator]:
        """Make an evaluator, which the block opens and closes."""
        from codeflash_parallel.run.evaluator import Evaluator

        return Evaluator(project, settings, once=True)


_hosts: list[EvaluatorHost] = [SingleUse()]


def current_host() -> EvaluatorHost:
    """Return the host of this process's commands."""
    return _hosts[-1]


@contextmanager
def hosted_by(host: EvaluatorHost) -> Iterator[None]:
    """Let commands get their evaluators from a host while the block lasts."""
    _hosts.append(host)
    try:
        yield
    finally:
        _hosts.pop()
