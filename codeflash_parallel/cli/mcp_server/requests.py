"""Arguments of the tools as arguments and standard input of the command line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from codeflash_parallel.candidates.submissions import STDIN, read_manifest
from codeflash_parallel.cli.options import SHARED, opposite_of
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_table import SWITCH, SettingColumns, SettingGroup, bad_setting
from codeflash_parallel.result.errors import UsageError


class SubmitMode(StrEnum):
    """Depth of an evaluation; the value is the command that does it."""

    #: Check, race and profile.
    RUN = "run"
    #: Check only.
    CHECK = "check"


def manifest_of(candidates: Sequence[Mapping[str, Any]]) -> str:
    """Return candidates as JSON lines.

    Raises:
        UsageError: `BAD_MANIFEST`: one has an unknown field, a bad id, or not exactly one content.
    """
    text = "".join(json.dumps(candidate) + "\n" for candidate in candidates)
    for _ in read_manifest("candidates", text):
        pass
    return text


def run_arguments(
    mode: SubmitMode, sources: Sequence[str], settings: Mapping[str, Any], *, reads_manifest: bool
) -> list[str]:
    """Return the command line that evaluates candidates; events and document go to its standard output.

    Args:
        mode: the command.
        sources: values of `--candidates`.
        settings: value by name, as in the table of settings.
        reads_manifest: further candidates come on standard input.

    Raises:
        UsageError: `NO_CANDIDATES`, `BAD_CANDIDATES` or `BAD_SETTING`.
    """
    named = [STDIN] * reads_manifest + list(sources)
    if not named:
        raise UsageError("NO_CANDIDATES", "No candidates are named.", "Give candidates or sources.")
    if STDIN in sources or "" in sources:
        raise UsageError("BAD_CANDIDATES", "A source must be the name of a file, folder or git range.")
    candidates = [f"--candidates={name}" for name in named]
    return [mode.value, "--output-format=jsonl", "-q", *candidates, *_setting_arguments(mode, settings)]


def _setting_arguments(mode: SubmitMode, settings: Mapping[str, Any]) -> Iterator[str]:
    rows = {
        name: row
        for name, row in SETTINGS.items()
        if row not in SHARED and (mode == SubmitMode.RUN or row.group != SettingGroup.RACE)
    }
    for name, value in settings.items():
        if name not in rows:
            raise _unknown(name, mode, rows)
        if not rows[name].kind.is_good(value):
            raise bad_setting(f"options: {name} must be {rows[name].kind.words}, not {value!r}.")
        yield from _arguments_of(rows[name], value)


def _arguments_of(row: SettingColumns, value: Any) -> list[str]:
    if row.kind == SWITCH:
        return [row.flag if value else opposite_of(row.flag)]
    return [f"{row.flag}={one}" for one in (value if row.kind.is_several else [value])]


def _unknown(name: str, mode: SubmitMode, rows: Mapping[str, SettingColumns]) -> UsageError:
    close = difflib.get_close_matches(name, rows, n=1)
    hint = f"Did you mean {close[0]}?" if close else f"The names are {', '.join(rows)}."
    return UsageError("BAD_SETTING", f"options: {name!r} is no setting of {mode}.", hint)
