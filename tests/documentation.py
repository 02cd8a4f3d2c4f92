"""Pages of the documentation, with the files that they show and the commands that they give.

A `sh` block is executed as it stands. A `python` or `toml` block whose first line is a comment with a path is
that file: it is written before the commands that follow (`toml` is appended). Another `python` block is a
program. What is in `NOT_RUN` is left out, with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

#: Languages of fenced blocks; those that are neither `sh` nor `python` nor `toml` are shown only.
LANGUAGES = {"sh", "python", "toml", "json", "text", "yaml"}

#: Beginning of a command → why it is not executed where its page is.
NOT_RUN = {
    "python3 -m venv .venv && .venv/bin/pip install -q . &&": "needs the package index: a campaign runs it",
    "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' &&": "runs all tests: .ci/run is this command",
    "python3 -m venv .venv": "needs the package index: part of the README's second command",
    ".venv/bin/pip install -q -e '.[dev]'": "needs the package index: part of the README's second command",
    ".venv/bin/nox": "runs all tests, or needs the package index",
    "python3 -m venv ~/codeflash": "needs the package index: the README's first command does the same",
    '~/codeflash/bin/pip install -q "$CHECKOUT"': "needs the package index, as above",
    "pip install 'codeflash-parallel[codeflash]'": "needs the package index",
    "codeflash-parallel codeflash": "needs codeflash and its service: tests/integration/test_codeflash_races.py",
    "nox -s selftest": "takes minutes: tests/integration/test_selftest.py runs the same program",
}
#: Page → the test that executes it in another way.
ELSEWHERE = {
    "docs/how-to/gate.md": "tests/integration/test_gate_templates.py",
    "docs/how-to/share_one_machine.md": "tests/acceptance/test_how_to_share.py",
}

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One fenced block of a page."""

    language: str
    text: str

    @property
    def shown_file(self) -> str:
        """Return the path of the file that this block is, or nothing."""
        found = _FILE.match(self.text) if self.language in {"python", "toml"} else None
        return found.group(1) if found else ""


def pages() -> list[Path]:
    """Return all pages that people read, those of the repository's root included."""
    root = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [*root, *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(language=language, text=text) for language, text in found]


def commands(block: Block) -> list[str]:
    """Return the commands of a `sh` block, each with the lines on which it is continued."""
    found: list[str] = []
    is_continued = False
    for line in block.text.splitlines():
        if is_continued:
            found[-1] += f"\n{line}"
        elif line.strip():
            found.append(line)
        is_continued = line.endswith(("\\", "|"))
    return found


def reason_not_run(command: str) -> str:
    """Return why a command is not executed; the longest entry counts."""
    fitting = [begin for begin in NOT_RUN if command.startswith(begin)]
    return NOT_RUN[max(fitting, key=len)] if fitting else ""


def executed_pages() -> list[Path]:
    """Return the pages that `script_of` makes a script of."""
    return [page for page in pages() if name_of(page) not in ELSEWHERE and _is_executed(page)]


def _is_executed(page: Path) -> bool:
    runnable = [c for b in blocks(page) if b.language == "sh" for c in commands(b) if not reason_not_run(c)]
    return bool(runnable) or any(b.language == "python" and not b.shown_file for b in blocks(page))


def script_of(page: Path) -> str:
    """Return a shell script that does what a page says, and ends at the first command that fails."""
    return "\n".join(["set -e", *_steps(page), ""])


def _steps(page: Path) -> Iterator[str]:
    for block in blocks(page):
        path = block.shown_file
        if path:
            redirection = ">>" if block.language == "toml" else ">"
            yield f"mkdir -p \"$(dirname {path})\"\ncat {redirection} {path} <<'END_OF_FILE'\n{block.text}END_OF_FILE"
        elif block.language == "python":
            yield f"python - <<'END_OF_PROGRAM'\n{block.text}END_OF_PROGRAM"
        elif block.language == "sh":
            yield from (command for command in commands(block) if not reason_not_run(command))
