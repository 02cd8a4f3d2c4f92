"""`mcp`: serve the tools until standard input is closed or a signal comes."""

from __future__ import annotations

import argparse
from pathlib import Path

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.settings_reader import must_be_there
from codeflash_parallel.result.errors import EnvironmentFault


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command; it has the common options only."""
    parser.epilog = (
        "The tools take the project as an argument; a relative one starts from --project. "
        "Standard output belongs to the protocol."
    )


def _serve(args: argparse.Namespace, _output: Output) -> int:
    """Serve one client; return 0 when it has closed standard input.

    Raises:
        UsageError: `NO_PROJECT`.
        EnvironmentFault: `MCP_MISSING`.
    """
    must_be_there(Path(args.project))
    _require_sdk()
    import anyio

    from codeflash_parallel.cli.mcp_server.tools import serve

    named = getattr(args, "cache_dir", "")
    cache_dir = str(Path(named).expanduser().absolute()) if named else ""
    anyio.run(serve, Path(args.project).absolute(), cache_dir)
    return ExitCode.OK


def _require_sdk() -> None:
    """Check that version 2 of the SDK can be imported.

    Raises:
        EnvironmentFault: `MCP_MISSING`.
    """
    try:
        import mcp.server.mcpserver  # noqa: F401 - only tried
    except ImportError as error:
        message = f"The server needs the package mcp, version 2 or later: {error}."
        hint = "Install it with: pip install 'codeflash-parallel[mcp]'"
        raise EnvironmentFault("MCP_MISSING", message, hint) from error


COMMANDS = {"mcp": Command(_add_arguments, _serve)}
