"""Write the reference pages from the code, so that they cannot differ: `python docs/make_reference.py`.

With `--check` nothing is written; the exit code says whether the pages are what the code says.
"""

# ruff: noqa: INP001, T201, SLF001, E501 - a script that prints, reads argparse's own list, and holds prose

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from json_schema import run_schema

from codeflash_parallel.cli.exit_codes import BY_FAMILY, BY_SIGNAL, ExitCode
from codeflash_parallel.cli.main import COMMANDS, LEAVES, QUEUE_COMMANDS, find_command
from codeflash_parallel.cli.options import make_parser, opposite_of
from codeflash_parallel.cli.stored_runs import BY_VERDICT
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import QUEUE_TABLE, TABLE
from codeflash_parallel.config.settings_table import SWITCH, SettingColumns
from codeflash_parallel.queue import queue_errors as errors
from codeflash_parallel.queue.jobs import JobKind, JobState, WaitReason
from codeflash_parallel.queue.queue_settings import QUEUE_SETTINGS
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict
from codeflash_parallel.result.result_model import STEPS

PAGES = Path(__file__).parent / "reference"
_QUEUE_SCHEMA = Path(__file__).parents[1] / "codeflash_parallel" / "report" / "queue.schema.json"


def main() -> int:
    """Write or check every page."""
    check = "--check" in sys.argv[1:]
    different = [name for name, text in pages().items() if _read(name) != text]
    for name in different:
        print(f"{name} is not what the code says" if check else f"wrote {name}")
        if not check:
            (PAGES / name).write_text(pages()[name], encoding="utf-8")
    return 1 if check and different else 0


def pages() -> dict[str, str]:
    """Return the text of every file by its path from the reference pages."""
    return {
        "commands.md": commands(),
        "json.md": json_page(),
        "exit-codes.md": exit_codes(),
        "../../codeflash_parallel/report/schema.json": json.dumps(run_schema(), indent=2) + "\n",
    }


def _read(name: str) -> str:
    path = PAGES / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def documented(member: StrEnum) -> str:
    """Return the `#:` line above a member of an enumeration."""
    source = inspect.getsource(type(member))
    found = re.search(rf"#: ([^\n]*)\n\s+{member.name} = ", source)
    if found is None:
        raise LookupError(f"{type(member).__name__}.{member.name} has no '#:' line")
    return found.group(1)


_INTRODUCTION = """`codeflash-parallel COMMAND [OPTIONS]`, or `python -m codeflash_parallel COMMAND [OPTIONS]`. The result goes to
standard output, progress to standard error. `NO_COLOR` is honoured. The first Ctrl-C or SIGTERM ends a run
with a result whose `complete` is false; the second one ends it at once."""

_COMMON = """Every command has these options. `--json` gives one document on standard output, also where the command fails
([JSON](json.md)); where the place of the result is a file, errors are told on standard error, too."""

_CHECK = """`check` has no race, hence no winner: it ends with `0` when at least one candidate is equivalent to the baseline
(status `undecided`, code `NOT_RACED`), with `1` when none is."""


_INCOMPLETE = """A run whose `complete` is false without an error has no verdict and ends with `4`: none of its candidates is
known to be equivalent, and some were not judged, because a budget was spent or the machinery failed."""


_RESUMED = """`resume` ends with the code of the run's result, also when the run was already finished. A run that does
not exist, or on which another process works, ends with `2`; one whose files are damaged or of a later version with `4`."""

_RED = """A baseline that is red ends with `4`. Where it is red because tests do not find a variable of your environment, or a
file that git ignores, the message names the option that gives it: `--pass-env NAME`, `--include-ignored PATH`."""


_SELECTED = """It runs the tests that can notice a change of the targets: those that execute one, and those that start
processes; all of them with `--no-select`. `run` runs the others, too, before a candidate enters the race
([why](../explanation/equivalence.md#tests))."""


def commands() -> str:
    """Return the page of commands and settings."""
    parts = [
        "# Commands",
        "_Generated from the code by `docs/make_reference.py`._",
        _INTRODUCTION,
        _table_of(COMMANDS),
        _COMMON,
        table(("option", "meaning"), [_row(action) for action in make_parser("", "")._actions]),
    ]
    for name, what in COMMANDS.items():
        parts += [f"## {name}", what, *(_options(name) if name in LEAVES else _queue())]
    parts += ["## Settings", _SETTINGS, _settings(SETTINGS)]
    parts += [
        "## Settings of the queue",
        _QUEUE_SETTINGS,
        _settings(QUEUE_SETTINGS),
        "## Candidates",
        _CANDIDATES,
    ]
    return "\n\n".join(parts) + "\n"


def _table_of(commands: Mapping[str, str]) -> str:
    rows = ((f"[`{name}`](#{name.replace(' ', '-')})", what) for name, what in commands.items())
    return table(("command", "what it does"), rows)


def _queue() -> Iterator[str]:
    yield _QUEUE
    yield _table_of(QUEUE_COMMANDS)
    for name, what in QUEUE_COMMANDS.items():
        yield f"## {name}"
        yield what
        yield from _options(name)


def _options(name: str) -> Iterator[str]:
    parser = make_parser(name, LEAVES[name])
    find_command(name).add_arguments(parser)
    if name == "check":
        yield _SELECTED
        yield f"It takes the options of [`run`](#run) without those of the race: {_not_taken(parser)}."
        return
    common = {action.dest for action in make_parser("", "")._actions}
    described = {*SETTINGS, *common, *(QUEUE_SETTINGS if name == "serve" else ())}
    own = [action for action in parser._actions if action.dest not in described]
    rows = [_row(action) for action in own]
    if rows:
        yield table(("option", "meaning"), rows)
    taken = {action.dest for action in parser._actions}
    settings = [f"`{row.flag}`" for name, row in SETTINGS.items() if name in taken - common]
    if len(taken & SETTINGS.keys()) == len(SETTINGS):
        yield "And an option for every [setting](#settings)."
    elif settings:
        yield f"And of the [settings](#settings): {', '.join(settings)}."
    if name == "serve":
        yield "And an option for every [setting of the queue](#settings-of-the-queue)."


def _not_taken(parser: argparse.ArgumentParser) -> str:
    """Return the options of `run` that another command does not take."""
    run = make_parser("run", "")
    find_command("run").add_arguments(run)
    taken = {action.dest for action in parser._actions}
    return ", ".join(f"`{action.option_strings[0]}`" for action in run._actions if action.dest not in taken)


def _row(action: argparse.Action) -> tuple[str, str]:
    return _spelled(action), (action.help or "").replace("%%", "%")


def _spelled(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else action.metavar or "|".join(map(str, action.choices or ()))
    names = action.option_strings or [""]
    value = f"{value} …" if not action.option_strings and action.nargs in {"+", "*"} else value
    return ", ".join(f"`{f'{name} {value}'.strip()}`" for name in names)


_SETTINGS = f"""Each setting may stand in the user's `$XDG_CONFIG_HOME/{TABLE}/config.toml` (`~/.config/…` where that variable is
not set; its keys stand at the top, those of the queue in a table `[{QUEUE_TABLE}]`), in `pyproject.toml` under
`[tool.{TABLE}]` (the nearest one that has this table, from the project up to the root of the repository), in the
environment, and on the command line; the later one wins. An unknown key is an error, a value of the wrong type is one, too. In the environment a list is
written as a shell would (`CODEFLASH_PARALLEL_TESTS="tests/unit 'tests/with space'"`), true as `1`, `true`,
`yes` or `on`. Paths are relative to the project. `codeflash-parallel doctor` says where each value comes from."""


def _settings(table_rows: Mapping[str, SettingColumns]) -> str:
    rows = (
        (
            f"`{row.key}`",
            ", ".join(f"`{flag}`" for flag in _flags(row)),
            f"`{row.variable}`",
            row.kind.words,
            _shown(row.default),
            row.help,
        )
        for row in table_rows.values()
    )
    return table(("key", "option", "variable", "value", "default", "meaning"), rows)


_QUEUE = """Several agents share one machine: they submit jobs, [`serve`](#serve) chooses the next one and evaluates it
([how](../how-to/share_one_machine.md)). The answers of `--json` are described in
[JSON](json.md#the-queue)."""

_QUEUE_SETTINGS = f"""They stand under `[{QUEUE_TABLE}]` of the user's file, under `[tool.{TABLE}.{QUEUE_TABLE}]`, in the environment, and on the command line of
[`serve`](#serve); the later one wins. Names and numbers are a table in the file (`weights = {{ada = 2}}`), and written
as a shell would in the environment and on the command line (`--weights ada=2 'bob and eve=0.5'`). A daemon uses
the settings that it was started with; commands without a daemon use those of the caller."""


def _flags(row: SettingColumns) -> Iterator[str]:
    yield row.flag
    if row.short:
        yield row.short
    if row.kind == SWITCH:
        yield opposite_of(row.flag)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(f"`{item}`" for item in value)
    if isinstance(value, Mapping):
        return " ".join(f"`{name}={number}`" for name, number in value.items())
    return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else ""


_CANDIDATES = """`--candidates` takes a folder, or one of these files; `--candidate` takes a git ref. Both may be
repeated; the order is kept, within a folder it is the natural one (`c2` before `c10`).

| file | what it holds |
| --- | --- |
| `.patch`, `.diff` | a unified diff, applied as `git apply` would |
| `.py` | the new version of a target, put in place of the old one, with its new imports and helpers |
| `.jsonl`, or `-` for standard input | one candidate a line |

A candidate's id is its file's stem (made unique with a number where needed). A line of a manifest is an object
with one of `edits` (`{"path": "new text"}` or `[{"path": …, "text": …}]`; `null` removes the file), `patch`
or `replacement` (with `function`, `path.py::Class.method`, where there are several targets), and, if wanted,
`id`, `parent` and `explanation`. An id has 1 to 128 printable characters without `/`, and is not `baseline`."""


def exit_codes() -> str:
    """Return the page of exit codes."""
    source = inspect.getsource(ExitCode)
    rows = []
    for code in ExitCode:
        meaning = re.search(rf"#: ([^\n]*)\n\s+{code.name} = ", source)
        assert meaning is not None
        rows.append((f"`{code.value}`", meaning.group(1), ", ".join(_causes(code))))
    return (
        "\n\n".join(
            (
                "# Exit codes",
                "_Generated from the code by `docs/make_reference.py`._",
                table(("code", "meaning", "in the document"), rows),
                _CHECK,
                _INCOMPLETE,
                _RED,
                _RESUMED,
                "On systems other than Linux every command says so in one line and ends with `4`.",
            )
        )
        + "\n"
    )


def _causes(code: ExitCode) -> Iterator[str]:
    yield from (f"verdict `{verdict}`" for verdict, its in BY_VERDICT.items() if its == code)
    yield from (f"error family `{family}`" for family, its in BY_FAMILY.items() if its == code)
    yield from (f"error code `{name}`" for name, its in BY_SIGNAL.items() if its == code)
    if code is ExitCode.NOT_HELD:
        yield f"verdict `{Verdict.TOO_NOISY.value}` with candidates `{Code.RACE_NOT_HELD.value}`"


def json_page() -> str:
    """Return the page of the JSON document."""
    whole = run_schema()
    parts = ["# JSON", "_Generated from the code by `docs/make_reference.py`._", _JSON, "## The document"]
    parts.append(_fields(whole, whole))
    for name, definition in whole["$defs"].items():
        if definition.get("type") == "object":
            parts += [f"### {name}", definition["description"], _fields(definition, whole)]
    rows = ((f"`{name}`", meaning) for name, meaning in STEPS.items())
    parts += ["### Steps", _STEPS, table(("step", "meaning"), rows)]
    vocabularies: tuple[tuple[str, type[StrEnum]], ...] = (
        ("Verdicts", Verdict), ("Statuses", CandidateStatus), ("Codes", Code), ("Levels", Level),
        ("Flags", FlagKind),
    )  # fmt: skip
    for title, members in vocabularies:
        rows = ((f"`{member.value}`", documented(member)) for member in members)
        parts += [f"## {title}", table(("value", "meaning"), rows)]
    parts += [
        "## What changed in version 2",
        _CHANGED,
        table(("field", "version 1", "version 2"), _RENAMED_VALUES),
    ]
    parts += ["## JSON lines", _JSONL, "## The queue", _QUEUE_JSON]
    queue = json.loads(_QUEUE_SCHEMA.read_text(encoding="utf-8"))
    parts.append(_fields(queue, queue, "queue-"))
    for name, definition in queue["$defs"].items():
        parts += [f"### queue {name}", _fields(definition, queue, "queue-")]
    for title, members in (
        ("States of jobs", JobState),
        ("Kinds of jobs", JobKind),
    ):
        rows = ((f"`{member.value}`", documented(member)) for member in members)
        parts += [f"### {title}", table(("value", "meaning"), rows)]
    rows = ((f"`{member.name}`", member.value, documented(member)) for member in WaitReason)
    parts += ["### Reasons", table(("reason", "says", "meaning"), rows)]
    parts += ["### Refusals", _REFUSALS, table(("code", "meaning", "figures"), _refusals())]
    return "\n\n".join(parts) + "\n"


_JSON = """`--json`, which is `--output-format json`, works on every command (of `mcp`: on errors of its start). `list` writes a
list of runs, `show --candidate` a candidate, `apply`, `clean`, `doctor` and `serve` (when it is ready) an object of
their own, as does `gate` ([its fields](../how-to/gate.md#json)); what follows is the document of `run`, `check`, `resume` and `show`, and of every command outside of `queue`
that fails.

With `--json` a run writes one document, whatever happens: also when the command line is wrong, the machine is
unfit, or the run is interrupted (exit codes 2, 3, 4, 130 and 143). Its JSON Schema ships with the package
(`codeflash_parallel/report/schema.json`). Unknown fields are to be ignored: within major version 2 fields and
codes are only added. The text is ASCII: control characters of candidates and tests are escaped.

`verdict` is null iff there is an `error` or the run is not `complete`; `winner` is non-null iff the verdict is
`winner` or `tie` (then it is the first of the `tie_set`)."""

_CHANGED = """`show` and `apply` read documents of major version 2 only: a stored result of version 1 ends with exit code 4
(`BAD_RESULT`). Field names and exit codes are those of version 1."""

#: Field → value of version 1 → value of version 2.
_RENAMED_VALUES = (
    ("`isolation`, `isolation_requested`", "`L0`", "`none`"),
    ("", "`L1`", "`landlock`"),
    ("", "`L2`", "`sandbox`"),
    ("", "`L3`", "(no such level: bubblewrap is not used)"),
    ("`served` of a candidate", "`F2`", "`collected`"),
    ("", "`F1`", "`imported`"),
    ("", "`F0`", "`imported` in runs without targets, else `new-process`"),
)

_QUEUE_JSON = """Every `queue` command with `--json` writes one document of this form (schema:
`codeflash_parallel/report/queue.schema.json`), a refusal included. `queue result` writes what `run` writes: the
document of the job's run, or the scores that a command of yours printed; `queue metrics` writes its samples by name. Unknown fields are to be ignored."""

_REFUSALS = "A refusal ends with exit code `2`, or `4` where the machine is at fault."


def _refusals() -> Iterator[tuple[str, str, str]]:
    """Yield code, meaning and figures of every error of the queue."""
    for kind in vars(errors).values():
        if isinstance(kind, type) and (code := vars(kind).get("CODE")):
            figures = ", ".join(f"`{figure}`" for figure in kind.FIGURES)
            yield f"`{code}`", inspect.getdoc(kind) or "", figures


#: Class of a vocabulary → its section.
_VOCABULARIES = {
    "Verdict": "verdicts", "CandidateStatus": "statuses", "Level": "levels", "FlagKind": "flags",
}  # fmt: skip

_STEPS = "Milliseconds by step; all but `queue` add up to the time that the slot was held."

_JSONL = """`--output-format jsonl` writes one event a line while it happens. Every line has `run_id`, `seq` (from 0), `event`
and `candidate` (an id or null).

| event | further fields |
| --- | --- |
| `run_started` | `slots` |
| `phase_started` | `phase`, `detail` |
| `candidate_moved` | `stage`, `slot` (0: none) |
| `candidate_finished` | `result`: the candidate as in the document; it may come again after the race |
| `warned` | `message` |
| `step_changed` | `step`: the current step, as a clause; `done` of `total` tests or calls (a total of 0 is unknown) |
| `run_waits` | `why`: what is waited for on this machine, as a clause; empty: no longer |
| `race_progress` | after every round of a race; `candidate` leads: `stage` (`race` or `confirmation`), `rounds`, `most_rounds`, `racing`, `speedup` of the leader (an estimate, no claim), `seconds_left` of the budget, `out`: candidates that are timed no longer, and why |
| `run_finished` | the document itself; always the last line |"""


def _fields(definition: dict[str, Any], whole: dict[str, Any], prefix: str = "") -> str:
    """Return the fields of an object; the parts of another document than a run's have titles with a prefix."""
    rows = (
        (f"`{name}`", _type(part, whole, prefix), part.get("description", ""))
        for name, part in definition["properties"].items()
    )
    return table(("field", "type", "meaning"), rows)


def _type(part: dict[str, Any], whole: dict[str, Any], prefix: str) -> str:  # noqa: PLR0911 - a table
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        definition = whole["$defs"][name]
        if definition.get("type") == "object":
            return f"[{name}](#{prefix}{name.lower()})"
        return (
            f"[{name}](#{_VOCABULARIES[name]})" if name in _VOCABULARIES else _type(definition, whole, prefix)
        )
    if "anyOf" in part:
        return " or ".join(_type(option, whole, prefix) for option in part["anyOf"])
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    if part.get("type") == "array":
        return f"list of {_type(part['items'], whole, prefix)}"
    if "additionalProperties" in part:
        return f"object of {_type(part['additionalProperties'], whole, prefix)} by name"
    if isinstance(part["type"], list):
        return " or ".join(part["type"])
    return str(part["type"])


if __name__ == "__main__":
    sys.exit(main())
