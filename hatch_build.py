"""Shell completions and the man page, made from the command line itself whenever a wheel is built."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Folder of what is made, below that of the build.
MADE = "shell"


def whole_parser() -> argparse.ArgumentParser:
    """Return one parser of all commands; the command line itself makes only that of the command it runs."""
    import shtab

    from codeflash_parallel import __version__
    from codeflash_parallel.cli.main import COMMANDS, LEAVES, QUEUE_COMMANDS, find_command
    from codeflash_parallel.cli.options import make_parser

    def add(commands: Any, name: str, description: str) -> None:
        parser = make_parser(name, description)
        find_command(name).add_arguments(parser)
        for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
            if action.metavar in {"PATH", "DIR"}:
                action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE  # type: ignore[attr-defined]
        word = name.rpartition(" ")[2]
        commands.add_parser(word, parents=[parser], add_help=False, help=description, description=description)

    whole = argparse.ArgumentParser(
        prog="codeflash-parallel",
        description="N candidate patches of one Python repository go in; the fastest one that is still "
        "correct comes out.",
    )
    whole.add_argument("--version", action="version", version=__version__)
    commands = whole.add_subparsers(metavar="COMMAND")
    for name, description in COMMANDS.items():
        if name in LEAVES:
            add(commands, name, description)
    queue = commands.add_parser("queue", help=COMMANDS["queue"], description=COMMANDS["queue"])
    queue_commands = queue.add_subparsers(metavar="COMMAND")
    for name, description in QUEUE_COMMANDS.items():
        add(queue_commands, name, description)
    return whole


def shell_files() -> dict[str, str]:
    """Return texts by their paths below the prefix of an installation."""
    import shtab
    from argparse_manpage.manpage import Manpage

    def completed(shell: str) -> str:
        return str(shtab.complete(whole_parser(), shell=shell))

    title = {
        "project_name": "codeflash-parallel",
        "manual_title": "Commands",
        "description": "races candidates",
    }
    return {
        "share/bash-completion/completions/codeflash-parallel": completed("bash"),
        "share/zsh/site-functions/_codeflash-parallel": completed("zsh"),
        "share/man/man1/codeflash-parallel.1": _well_set(str(Manpage(whole_parser(), title))),
    }


def _well_set(page: str) -> str:
    """Return a page in which no text that begins with a dot is a macro, and lines are not stretched."""
    header, *lines = re.sub(r"^\.(?=[a-z])", r"\\&.", page, flags=re.MULTILINE).split("\n")
    return "\n".join([header, ".ad l", *lines])


class ShellFiles(BuildHookInterface):
    """Puts completions and the man page into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files; an editable installation has none, as its options may change.

        Args:
            version: kind of the wheel.
            build_data: of the build; `shared_data` is added to.
        """
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            files = shell_files()
        finally:
            sys.path.remove(self.root)
        for place, text in files.items():
            path = Path(self.directory, MADE, place)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            build_data["shared_data"][str(path)] = place
