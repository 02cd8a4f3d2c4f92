"""`gate`: did a change make it slower? Exit code 0: no; 1: yes; 4: that cannot be said."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode, Interrupts, SignalInterrupt, handling_signals
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Output, must_be_writable, write_file
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.config.settings import Settings
    from codeflash_parallel.gate.gate_result import GateResult
    from codeflash_parallel.gate.regression_gate import GateRequest

#: Settings of a gate, as `run` has them.
_SETTINGS = (
    *("tests", "keyword", "marker", "benchmark_command", "python", "confidence", "min_speedup"),
    *("include_ignored", "pass_env", "isolation", "require_isolation", "allow_network", "allow_write"),
    *("memory_limit", "file_size_limit", "open_files_limit", "processes_limit", "disk_limit"),
)

#: Less time decides nothing anywhere.
_LEAST_BUDGET_S = 5.0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not _LEAST_BUDGET_S <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


def _fraction(text: str) -> float:
    fraction = float(text)
    if not 0 < fraction < 1:
        raise ValueError(text)
    return fraction


def _place(text: str) -> str:
    if (why := SETTINGS["benchmark"].why_not) and why(text):
        raise ValueError(text)
    return text


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} --base REF [options]"
    parser.add_argument(
        "--base",
        dest="base_ref",
        metavar="REF",
        required=True,
        help="What the head is compared with: the merge base of this and the head, e.g. origin/main.",
    )
    parser.add_argument(
        "--head",
        dest="head_ref",
        metavar="REF",
        default="",
        help="What may be slower. Default: the working tree, uncommitted work included.",
    )
    parser.add_argument(
        "--benchmark",
        dest="benchmarks",
        metavar="PATH::NAME",
        action="append",
        default=[],
        type=options.argument(_place, "a callable, path.py::name"),
        help="Callable without arguments that is timed; may be repeated. Default: the head's tests that use "
        "pytest-benchmark. Whatever it is, both sides have it from the head.",
    )
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        default=60.0,
        type=options.argument(_seconds, f"a number of seconds, {_LEAST_BUDGET_S:g} at least"),
        help="Wall seconds that the race may take; it ends as soon as all is decided. Default: 60.",
    )
    parser.add_argument(
        "--max-regression",
        dest="allowed_loss",
        metavar="FRACTION",
        default=0.02,
        type=options.argument(_fraction, "a fraction between 0 and 1"),
        help="Slowdown of a benchmark that is red. The setting of the same name is one of `run`: it plays no "
        "part here. Default: 0.02.",
    )
    parser.add_argument(
        "--prepare",
        dest="build_command",
        metavar="COMMAND",
        default="",
        help="Shell command that builds each side in its own copy, such as 'python setup.py build_ext "
        "--inplace'. What it builds is kept, by tree, command and interpreter. The setting of the same name "
        "is one of `run`: it plays no part here.",
    )
    parser.add_argument(
        "--qualify",
        action="store_true",
        help="Race the base against itself, and say whether this machine tells 5 %% within the budget.",
    )
    parser.add_argument(
        "--allow-noise", action="store_true", help="Exit with 0, not with 4, where noise forbids a verdict."
    )
    parser.add_argument(
        "--markdown", metavar="PATH", default="", help="Also write a summary in Markdown, for a pull request."
    )
    group = parser.add_argument_group("settings", "Also in pyproject.toml, [tool.codeflash-parallel].")
    options.add_settings(group, (SETTINGS[name] for name in _SETTINGS))


def _gate(args: argparse.Namespace, output: Output) -> int:
    """Race the head against the base; return 0 if it is surely not slower, 1 if it surely is, else 4."""
    with handling_signals(output) as interrupts:
        settings = read_settings(Path(args.project), os.environ, vars(args)).settings
        if args.benchmarks and "benchmark_command" in args:
            message = "--benchmark and --benchmark-command cannot both be given: give one of them."
            raise UsageError("BAD_ARGUMENTS", message)
        output.must_be_writable()
        if args.markdown:
            must_be_writable(Path(args.markdown))
        result = _held(Path(args.project), settings, _request(args), output, interrupts)
        _write(result, args.markdown, output)
    return _exit_code(result, allow_noise=args.allow_noise)


def _request(args: argparse.Namespace) -> GateRequest:
    from codeflash_parallel.gate.regression_gate import GateRequest

    return GateRequest(
        base=args.base_ref,
        head=args.head_ref,
        benchmarks=tuple(args.benchmarks),
        prepare=args.build_command,
        budget_s=args.budget,
        max_regression=args.allowed_loss,
        is_qualification=args.qualify,
    )


def _held(
    project: Path, settings: Settings, request: GateRequest, output: Output, interrupts: Interrupts
) -> GateResult:
    """Hold a gate on an event loop; a signal cancels it.

    Raises:
        SignalInterrupt: a signal came before the result.
    """
    import asyncio

    import anyio

    from codeflash_parallel.gate.regression_gate import gate
    from codeflash_parallel.result.safe_text import one_line

    def tell(said: str) -> None:
        if output.form.is_text:
            sys.stderr.write(f"{one_line(said)}\n")

    async def held() -> GateResult:
        scope, loop = anyio.CancelScope(), asyncio.get_running_loop()
        interrupts.passed_to(lambda _name: loop.call_soon_threadsafe(scope.cancel))
        with scope:
            result = await gate(project, settings, request, tell)
            interrupts.come_too_late()
            return result
        raise SignalInterrupt(interrupts.received)

    return anyio.run(held, backend="asyncio")


def _write(result: GateResult, markdown_path: str, output: Output) -> None:
    from codeflash_parallel.report.gate_report import markdown, text

    if markdown_path:
        write_file(Path(markdown_path), markdown(result))
    if output.form.is_text:
        output.write(text(result))
    else:
        output.write_values(result.document())


def _exit_code(result: GateResult, *, allow_noise: bool) -> ExitCode:
    """Return what a result comes to; where nothing was raced noise is no excuse."""
    if result.qualification is not None:
        return ExitCode.OK if result.qualification.tells else ExitCode.UNFIT
    match result.verdict:
        case "slower":
            return ExitCode.NO_WINNER
        case "too_noisy":
            return ExitCode.OK if allow_noise and result.rounds else ExitCode.UNFIT
        case _:
            return ExitCode.OK


COMMANDS = {"gate": Command(_add_arguments, _gate)}
