"""The diff of one file as `git diff` shows it, for files whose old and new bytes are both at hand.

Asking git takes seven processes and as many files a candidate. The hunks may be cut otherwise than git's;
they apply all the same.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Literal

from codeflash_parallel.workspace.git.git_client import blob_id

ABSENT = "000000"
_NO_BLOB = "0" * 40
#: Lines of context around a change.
_CONTEXT = 3
#: Above this many pairs of lines that differ, finding the shortest diff takes seconds: all is replaced.
_MOST_PAIRS = 4_000_000
#: Bytes of a name that git writes as they are.
_PRINTABLE = range(0x20, 0x7F)
#: How it writes some others; what is in neither is written in octal.
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


def file_diff(path: str, old: bytes | None, new: bytes | None, old_mode: str, new_mode: str) -> str:
    """Return the diff of one file.

    Args:
        path: in the repository.
        old, new: its bytes, `None` where there is no such file; they differ.
        old_mode, new_mode: git's, e.g. ``"100644"``; `ABSENT` where there is no such file.
    """
    a, b = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    lines = [f"diff --git {a} {b}", *_head(old, new, old_mode, new_mode)]
    before, after = "/dev/null" if old is None else a, "/dev/null" if new is None else b
    if b"\0" in (old or b"") or b"\0" in (new or b""):
        lines.append(f"Binary files {before} and {after} differ")
    elif old or new:
        lines += [f"--- {before}{_tab(before)}", f"+++ {after}{_tab(after)}"]
        lines += _hunks(_lines_of(old), _lines_of(new))
    return "\n".join(lines) + "\n"


def _head(old: bytes | None, new: bytes | None, old_mode: str, new_mode: str) -> Iterator[str]:
    if old is None:
        yield f"new file mode {new_mode}"
    elif new is None:
        yield f"deleted file mode {old_mode}"
    elif old_mode != new_mode:
        yield f"old mode {old_mode}"
        yield f"new mode {new_mode}"
    blobs = [(_NO_BLOB if data is None else blob_id(data))[:7] for data in (old, new)]
    both = old is not None and new is not None and old_mode == new_mode
    yield f"index {blobs[0]}..{blobs[1]}{f' {old_mode}' if both else ''}"


def _lines_of(data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace")
    lines = text.split("\n")
    if lines[-1]:  # no newline at the end, which counts as a difference
        return [*lines[:-1], lines[-1] + "\n\\ No newline at end of file"]
    return lines[:-1]


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for group in _Known(_operations(old, new)).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
            else:
                yield from (f"-{line}" for line in old[i1:i2])
                yield from (f"+{line}" for line in new[j1:j2])


_Operation = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class _Known(difflib.SequenceMatcher[str]):
    """Cuts operations that are known already at long equal stretches, and keeps some lines as context."""

    def __init__(self, operations: list[_Operation]) -> None:
        super().__init__(None, "", "")
        self._operations = operations

    def get_opcodes(self) -> list[_Operation]:
        """Return them."""
        return self._operations


def _operations(old: Sequence[str], new: Sequence[str]) -> list[_Operation]:
    """Return difflib's operations; what both begin and end with is left out of the search."""
    head = _common(zip(old, new, strict=False))
    room = min(len(old), len(new)) - head
    tail = min(room, _common(zip(reversed(old), reversed(new), strict=False)))
    i2, j2 = len(old) - tail, len(new) - tail
    found: list[_Operation] = [("equal", 0, head, 0, head)]
    if (i2 - head) * (j2 - head) > _MOST_PAIRS:
        found.append(("replace", head, i2, head, j2))
    else:
        matcher = difflib.SequenceMatcher(None, old[head:i2], new[head:j2], autojunk=False)
        found += [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    found.append(("equal", i2, len(old), j2, len(new)))
    # No equal stretches meet: what is searched neither begins nor ends with the same line in both.
    return [(tag, i1, i2, j1, j2) for tag, i1, i2, j1, j2 in found if i1 < i2 or j1 < j2]


def _common(pairs: Iterator[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _range(start: int, stop: int) -> str:
    """Return a hunk's range as git writes it: a range of no lines stands behind the line before it."""
    length = stop - start
    if length == 1:
        return f"{start + 1}"
    return f"{start + 1 if length else start},{length}"


def _tab(name: str) -> str:
    """Return the tab that git puts behind a name with spaces in it."""
    return "\t" if " " in name else ""


def _quoted(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    if all(byte in _PRINTABLE and byte not in _ESCAPES for byte in data):
        return name
    return f'"{"".join(map(_escaped, data))}"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return "\\" + _ESCAPES[byte]
    return chr(byte) if byte in _PRINTABLE else f"\\{byte:03o}"
