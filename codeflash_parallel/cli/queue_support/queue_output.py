"""Answers of the queue have a form of their own, errors included."""

from __future__ import annotations

from typing import Any

from codeflash_parallel.cli.output import Output
from codeflash_parallel.result.errors import CodeflashParallelError


class QueueOutput(Output):
    """The place of an answer; errors are told in the queue's document, refusals with their figures."""

    def write_error_document(self, error: CodeflashParallelError) -> None:
        """Write the document of an error."""
        from codeflash_parallel.report.queue.json_document import refusal_document

        self.write_values(refusal_document(error, figures_of(error)))


def figures_of(error: CodeflashParallelError) -> dict[str, Any]:
    """Return what an error says beside its message: `retry_after_s`, `limit` and the like."""
    return {
        name: value
        for name, value in vars(error).items()
        if name not in {"code", "message", "hint"} and isinstance(value, str | int | float)
    }
