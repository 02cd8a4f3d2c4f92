"""Candidates of `tomlkit_escape_string`: characters of a TOML string are escaped."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "tomlkit/_utils.py"
STARTS = "            if s[i:].startswith(seq):\n"
FOUND = "    found_sequences = {seq for seq in escape_sequences if seq in s}\n"

NOTHING_FOUND = (
    FOUND
    + """\
    if not found_sequences:
        return "".join((s,))
"""
)


def _startswith_at(sources: Sources) -> dict[str, str]:
    text = substitute(sources.base(PATH), STARTS, "            if s.startswith(seq, i):\n")
    return {PATH: substitute(text, FOUND, NOTHING_FOUND)}


def _slice_compared(sources: Sources) -> dict[str, str]:
    return {PATH: substitute(sources.base(PATH), STARTS, "            if s[i : i + seq_len] == seq:\n")}


def _found_by_filter(sources: Sources) -> dict[str, str]:
    new = "    found_sequences = set(filter(lambda seq: s.find(seq) >= 0, escape_sequences))\n"
    return {PATH: substitute(sources.base(PATH), FOUND, new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "startswith_at": _startswith_at,
    "slice_compared": _slice_compared,
    "found_by_filter": _found_by_filter,
}
