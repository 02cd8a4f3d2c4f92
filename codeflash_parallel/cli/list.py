"""`list`: the earlier runs of this repository."""

from __future__ import annotations

import argparse
from typing import Any, TextIO

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.run_support.run_finder import find_places


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `list`."""
    options.add_output(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """List the runs, the latest first."""
    runs = [_short(document) for document in find_places(args).documents()]
    if output.form != Format.TEXT:
        output.write_values(runs)
        return ExitCode.OK

    def draw(stream: TextIO) -> None:
        from codeflash_parallel.report.terminal.console import make_console, print_rows

        rows = [(r["run_id"], r["outcome"], str(r["candidates"]), r["summary"]) for r in runs]
        print_rows(("run", "verdict", "candidates", ""), rows, make_console(stream), overflow="ellipsis")

    output.write_report(draw)
    return ExitCode.OK


def _short(document: dict[str, Any]) -> dict[str, Any]:
    error = document.get("error") or {}
    return {
        "run_id": document.get("run_id", ""),
        "outcome": document.get("verdict") or error.get("code") or "incomplete",
        "winner": document.get("winner"),
        "candidates": len(document.get("candidates", ())),
        "summary": " ".join(filter(None, (document.get("summary") or error.get("message"), _hint(document)))),
    }


def _hint(document: dict[str, Any]) -> str:
    """Return what can be done about a run that did not come to its end."""
    error = document.get("error") or {}
    if document.get("complete") or error:
        return str(error.get("hint", ""))
    return f"`codeflash-parallel resume {document.get('run_id')}` goes on with it."
