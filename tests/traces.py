"""Read what strace saw: which calls would change something below a folder. Pure.

A call counts when it is made, whether or not it succeeds.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

#: Calls that change what their paths name, by the positions of those paths.
_BY_PATH = {
    **dict.fromkeys(("creat", "truncate", "mkdir", "rmdir", "unlink", "chmod", "chown", "lchown"), (0,)),
    **dict.fromkeys(
        ("mknod", "utime", "utimes", "setxattr", "lsetxattr", "removexattr", "lremovexattr"), (0,)
    ),
    **dict.fromkeys(("rename", "link"), (0, 1)),  # a link changes the count of what it leads to
    "symlink": (1,),
}
#: The same for calls that name a folder by descriptor, and a path in it: positions of those descriptors.
_BY_FOLDER = {
    **dict.fromkeys(
        ("mkdirat", "unlinkat", "fchmodat", "fchmodat2", "fchownat", "mknodat", "utimensat"), (0,)
    ),
    **dict.fromkeys(("futimesat",), (0,)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), (0, 2)),
    "symlinkat": (1,),
}
_BY_DESCRIPTOR = ("fchmod", "fchown", "ftruncate", "fallocate", "fsetxattr", "fremovexattr")
#: What strace is to be asked for.
TRACED = "%file,%process,fchdir," + ",".join(_BY_DESCRIPTOR)
_OPENS = {"open": 0, "openat": 0, "openat2": 0}
_WRITING = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)\b")
_LINE = re.compile(r"^(\d+) +(?:\d+\.\d+ +)?(\w+)\((.*)$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (clone3?|v?fork) resumed>.* = (\d+)")
_STARTED = re.compile(r" = (\d+)(?:<.*>)?$")
_ARGUMENT = re.compile(r'\s*("(?:[^"\\]|\\.)*"(?:\.\.\.)?|[^,\s()\[\]{}"]*<[^>]*>|[^,]+)')


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One call that would change something; `path` is empty where nobody can say what."""

    call: str
    path: str
    line: str


@dataclass(slots=True)
class _Reader:
    """Follows where each process stands."""

    start: str
    folders: dict[str, str] = field(default_factory=dict)

    def read(self, line: str) -> Iterator[Change]:
        resumed = _RESUMED.match(line)
        if resumed:
            self._born(resumed[1], resumed[3])
        found = _LINE.match(line)
        if not found:
            return
        process, call, rest = found.groups()
        arguments = [text.strip() for text in _ARGUMENT.findall(rest)]
        self._learn(process, call, arguments, rest)
        for path in _paths(call, arguments, rest):
            yield Change(call=call, path=self._whole(process, path), line=line)

    def _learn(self, process: str, call: str, arguments: list[str], rest: str) -> None:
        if arguments and (stands := re.match(r"AT_FDCWD<(.*)>$", arguments[0])):
            self.folders[process] = stands[1]
        if call == "chdir" and arguments and not re.search(r"= -1", rest):
            self.folders[process] = self._whole(process, _text(arguments[0]))
        if call == "fchdir" and arguments and not re.search(r"= -1", rest):
            self.folders[process] = _named(arguments[0])
        if call in {"clone", "clone3", "fork", "vfork"} and (child := _STARTED.search(rest)):
            self._born(process, child[1])

    def _born(self, parent: str, child: str) -> None:
        self.folders.setdefault(child, self.folders.get(parent, self.start))

    def _whole(self, process: str, path: str) -> str:
        """Return an absolute path; empty for a relative one of a process that stands nobody knows where."""
        if path.startswith("/") or not path:
            return posixpath.normpath(path) if path else ""
        folder = self.folders.get(process, "" if self.folders else self.start)
        return posixpath.normpath(posixpath.join(folder, path)) if folder else ""


def _paths(call: str, arguments: list[str], rest: str) -> Iterator[str]:
    if call in _OPENS:
        if _WRITING.search(rest):
            yield _at(arguments, 0) if call != "open" else _text(arguments[0])
    elif call in _BY_PATH:
        yield from (_text(arguments[n]) for n in _BY_PATH[call] if n < len(arguments))
    elif call in _BY_FOLDER:
        yield from (_at(arguments, n) for n in _BY_FOLDER[call])
    elif call in _BY_DESCRIPTOR:
        yield _named(arguments[0])


def _at(arguments: list[str], position: int) -> str:
    """Return what a descriptor of a folder and a path mean together."""
    folder = _named(arguments[position])
    path = _text(arguments[position + 1]) if position + 1 < len(arguments) else ""
    return posixpath.join(folder, path) if path else folder


def _named(argument: str) -> str:
    found = re.search(r"<(.*)>$", argument)
    return found[1] if found else ""


def _text(argument: str) -> str:
    return argument.removesuffix("...").strip('"') if argument.startswith('"') else ""


def changes(lines: Iterable[str], start: str) -> list[Change]:
    """Return every call that would change something.

    Args:
        lines: of ``strace -f -y -e trace=TRACED``.
        start: absolute path of the folder in which it was started.
    """
    reader = _Reader(start)
    return [change for line in lines for change in reader.read(line.rstrip("\n"))]


def below(found: Iterable[Change], folder: str) -> list[Change]:
    """Return those at or below a folder, and those of which nobody can say where they are."""
    return [one for one in found if not one.path or one.path == folder or one.path.startswith(folder + "/")]
