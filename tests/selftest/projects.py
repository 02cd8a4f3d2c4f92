"""Projects of the corpus on disk, and what an attack is told about the place where it runs."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from selftest.entries import OUTSIDE, PORT, SPARED, TOKEN, Base, Entry, Kind, Trace

#: What a commit needs, whatever the user has configured.
_GIT = (
    *("git", "-c", "user.name=selftest", "-c", "user.email=selftest@localhost", "-c", "commit.gpgsign=false"),
    *("-c", "init.defaultBranch=main", "-c", "core.hooksPath=/dev/null"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """What one attack, tried once, would leave behind.

    Attributes:
        outside: a folder outside of every tree.
        token: a word that nothing else has.
        listener: where a connection would arrive; `None`: it wants none.
    """

    outside: Path
    token: str
    listener: socket.socket | None = None

    def filled_in(self, text: str) -> str:
        """Return code with what stands for the marks replaced."""
        port = self.listener.getsockname()[1] if self.listener else 0
        filled = text.replace(OUTSIDE, str(self.outside)).replace(TOKEN, self.token)
        return filled.replace(PORT, str(port)).replace(SPARED, str(os.getpid()))


@contextmanager
def marks(entry: Entry, folder: Path) -> Iterator[Marks]:
    """Make the marks of one attack; afterwards nothing of them is left.

    Args:
        entry: the attack.
        folder: a new one, outside of every tree.
    """
    folder.mkdir(parents=True)
    token = f"selftest-{secrets.token_hex(8)}"
    if entry.trace is Trace.SECRET:
        (folder / "secret").write_text(token, encoding="utf-8")
    listener = _listener() if entry.trace is Trace.CONNECTION else None
    try:
        yield Marks(outside=folder, token=token, listener=listener)
    finally:
        if listener is not None:
            listener.close()
        shutil.rmtree(folder, ignore_errors=True)


def _listener() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=16)
    listener.setblocking(False)
    return listener


def write_files(folder: Path, texts: Mapping[str, str | None]) -> None:
    """Write files below a folder; `None` removes one."""
    for name, text in texts.items():
        path = folder / name
        if text is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")


def texts_of(base: Base, checkout: Path) -> dict[str, str]:
    """Return the files of a base whose checkout lies in a folder."""
    return {name: text.replace(OUTSIDE, str(checkout)) for name, text in base.files.items()}


def write_repository(folder: Path, base: Base) -> None:
    """Make a repository of a base, with one commit."""
    folder.mkdir(parents=True)
    write_files(folder, texts_of(base, folder))
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "The project")):
        subprocess.run([*_GIT, *command], cwd=folder, check=True, stdin=subprocess.DEVNULL)


def add_worktree(repository: Path, folder: Path) -> None:
    """Make a plain worktree of a repository: its git directory is shared."""
    command = ["worktree", "add", "-q", "--detach", str(folder)]
    subprocess.run([*_GIT, *command], cwd=repository, check=True, stdin=subprocess.DEVNULL)


def edits_of(entry: Entry, base: Base, mark: Marks) -> dict[str, str | None]:
    """Return the texts of the files that an attack changes, `None` for one that it removes."""
    texts = {path: mark.filled_in(text) if text else None for path, text in entry.files.items()}
    if entry.code and entry.kind is not Kind.HONEST:
        texts[base.module] = base.files[base.module] + "\n\n" + mark.filled_in(entry.code)
    return texts
