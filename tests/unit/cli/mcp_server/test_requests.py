from __future__ import annotations

import json
from typing import Any

import pytest

from codeflash_parallel.cli.main import find_command
from codeflash_parallel.cli.mcp_server.requests import SubmitMode, manifest_of, run_arguments
from codeflash_parallel.cli.options import make_parser
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_table import SWITCH, SettingGroup
from codeflash_parallel.result.errors import UsageError

#: A value of each kind; texts may look like options.
VALUES = {"text": "--x=y z", "a list of texts": ["-a", "b c"], "auto or a whole number": 2}


def value_of(name: str) -> Any:
    row = SETTINGS[name]
    if row.kind == SWITCH:
        return True
    return VALUES.get(row.kind.words, row.default)


def parsed(mode: SubmitMode, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the command reads."""
    name, *rest = run_arguments(mode, ["folder"], settings, reads_manifest=True)
    parser = make_parser(name, "")
    find_command(name).add_arguments(parser)
    return vars(parser.parse_args(rest))


@pytest.mark.parametrize("mode", SubmitMode)
def test_every_setting_reaches_the_command(mode: SubmitMode) -> None:
    names = [name for name in SETTINGS if name != "cache_dir"]
    if mode == SubmitMode.CHECK:
        names = [name for name in names if SETTINGS[name].group != SettingGroup.RACE]
    settings = {name: value_of(name) for name in names}
    read = parsed(mode, settings)
    assert {name: read[name] for name in names} == settings
    assert [source.text for source in read["sources"]] == ["-", "folder"]
    assert (read["output_format"], read["quiet"]) == ("jsonl", True)


def test_a_switch_can_be_undone() -> None:
    assert parsed(SubmitMode.RUN, {"new_process": False})["new_process"] is False


@pytest.mark.parametrize(
    ("mode", "sources", "settings", "code", "words"),
    [
        ("run", [], {}, "NO_CANDIDATES", "candidates or sources"),
        ("run", ["-"], {}, "BAD_CANDIDATES", "source"),
        ("run", [""], {}, "BAD_CANDIDATES", "source"),
        ("run", ["x"], {"time_budgt": 1}, "BAD_SETTING", "time_budget?"),
        ("run", ["x"], {"cache_dir": "x"}, "BAD_SETTING", "cache_dir"),
        ("check", ["x"], {"time_budget": 1}, "BAD_SETTING", "no setting of check"),
        ("run", ["x"], {"seed": "1"}, "BAD_SETTING", "seed must be a whole number, not '1'"),
        ("run", ["x"], {"tests": "a"}, "BAD_SETTING", "tests must be a list of texts"),
    ],
)
def test_bad_arguments_are_refused(
    mode: str, sources: list[str], settings: dict[str, Any], code: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        run_arguments(SubmitMode(mode), sources, settings, reads_manifest=False)
    assert caught.value.code == code
    assert words in str(caught.value)


def test_a_manifest_has_a_candidate_a_line() -> None:
    candidates = [{"id": "a", "patch": "x\ny"}, {"id": "b", "edits": {"p.py": None}}]
    assert [json.loads(line) for line in manifest_of(candidates).splitlines()] == candidates


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        ({"id": "a"}, "candidates:1:"),
        ({"id": "a", "patch": "x", "replacement": "y"}, "candidates:1:"),
        ({"id": "a/b", "patch": "x"}, "printable"),
        ({"id": "a", "pach": "x"}, "unknown field pach"),
    ],
)
def test_a_bad_candidate_is_refused(candidate: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        manifest_of([candidate])
