"""Settings of the queue, from its table, the environment and the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from codeflash_parallel.cli.options import Parser
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.config.sources import INTEGER, NUMBER, TEXT, key_of
from codeflash_parallel.queue import settings_reader
from codeflash_parallel.queue.jobs import Overflow, Strategy
from codeflash_parallel.queue.queue_settings import QUEUE_SETTING_NAMES, QueueSettings
from codeflash_parallel.queue.settings_reader import (
    KINDS,
    add_queue_settings,
    flag_of,
    read_queue_settings,
    variable_of,
)
from codeflash_parallel.result.errors import UsageError

#: A value of each kind: as text, as arguments, in TOML, as it is read; and in TOML what is not of the kind.
VALUES = {
    INTEGER: ("7", ["7"], "7", 7, "7.5"),
    NUMBER: ("70.5", ["70.5"], "70.5", 70.5, '"70"'),
    settings_reader.STRATEGY: ("fifo", ["fifo"], '"fifo"', Strategy.FIFO, '"lifo"'),
    settings_reader.OVERFLOW: ("drop-oldest", ["drop-oldest"], '"drop-oldest"', Overflow.DROP_OLDEST, "true"),
    settings_reader.NUMBERS: ("ada=2 'b ob=x'=0.5", ["ada=2", "b ob=x=0.5"], '{ada = 2, "b ob=x" = 0.5}', {"ada": 2.0, "b ob=x": 0.5}, '{ada = "2"}'),
    settings_reader.INTEGERS: ("race=1", ["race=1"], "{race = 1}", {"race": 1}, "{race = 1.5}"),
    TEXT: ("here:rank", ["here:rank"], '"here:rank"', "here:rank", "1"),
}  # fmt: skip
#: A value that suits a setting better than just any of its kind.
OWN = {"heartbeat": "0.5"}


def example(name: str) -> tuple[str, list[str], str, object]:
    if name in OWN:
        return OWN[name], [OWN[name]], OWN[name], float(OWN[name])
    return VALUES[KINDS[name]][:4]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(project: Path, *lines: str) -> None:
    text = "\n".join(["[tool.codeflash-parallel.queue]", *lines])
    (project / "pyproject.toml").write_text(f"{text}\n", encoding="utf-8")


def parsed(*arguments: str) -> Mapping[str, object]:
    parser = Parser(prog="serve")
    add_queue_settings(parser)
    return vars(parser.parse_args(arguments))


def refused(project: Path, environment: Mapping[str, str] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        read_queue_settings(project, environment or {}, {})
    return f"{caught.value.code}: {caught.value}"


def test_nothing_said_is_the_default(project: Path) -> None:
    configured = read_queue_settings(project, {}, {})
    assert configured.settings == QueueSettings()
    assert configured.sources == dict.fromkeys(QUEUE_SETTING_NAMES, "default")


@pytest.mark.parametrize("name", QUEUE_SETTING_NAMES)
def test_every_setting_can_come_from_each_source(name: str, project: Path) -> None:
    text, arguments, toml, value = example(name)
    from_variable = read_queue_settings(project, {variable_of(name): text}, {})
    given = parsed(flag_of(name), *arguments)
    from_option = read_queue_settings(project, {}, given)
    write(project, f"{key_of(name)} = {toml}")
    from_file = read_queue_settings(project, {}, {})
    for configured in (from_variable, from_option, from_file):
        assert getattr(configured.settings, name) == value
        assert configured.sources[name] != "default"
    assert value != getattr(QueueSettings(), name)


@pytest.mark.parametrize("name", QUEUE_SETTING_NAMES)
def test_a_value_of_the_wrong_kind_is_refused_with_the_place_it_came_from(name: str, project: Path) -> None:
    kind = KINDS[name]
    write(project, f"{key_of(name)} = {VALUES[kind][4]}")
    assert refused(project).startswith(
        f"BAD_SETTING: {project / 'pyproject.toml'}: {key_of(name)} must be {kind.words}"
    )
    if kind == TEXT:
        return
    (project / "pyproject.toml").unlink()
    assert refused(project, {variable_of(name): "x y"}).startswith(
        f"BAD_SETTING: {variable_of(name)} must be"
    )
    with pytest.raises(UsageError, match=f"{flag_of(name)}: must be"):
        parsed(flag_of(name), "x y")


def test_the_last_source_wins(project: Path) -> None:
    write(project, "lease = 100", "max-queue-size = 3", 'strategy = "fifo"')
    environment = {variable_of("lease"): "200", variable_of("max_queue_size"): "4"}
    configured = read_queue_settings(project, environment, parsed("--lease", "300"))
    settings = configured.settings
    assert (settings.lease, settings.max_queue_size, settings.strategy) == (300.0, 4, Strategy.FIFO)
    assert configured.sources["lease"] == "command line, --lease"


def test_a_value_out_of_range_names_its_source(project: Path) -> None:
    write(project, "max-attempts = 0")
    said = refused(project)
    assert "max_attempts must be" in said
    assert f"It comes from: {project / 'pyproject.toml'}." in said


def test_a_misspelled_key_or_variable_is_refused(project: Path) -> None:
    assert "Did you mean CODEFLASH_PARALLEL_QUEUE_LEASE?" in refused(
        project, {"CODEFLASH_PARALLEL_QUEUE_LAESE": "3"}
    )
    write(project, "strategi = 1")
    assert "unknown key 'strategi' in [tool.codeflash-parallel.queue]. Did you mean 'strategy'?" in refused(
        project
    )


def test_a_table_that_is_none_is_refused(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.codeflash-parallel]\nqueue = 1\n", encoding="utf-8")
    assert refused(project).endswith("tool.codeflash-parallel.queue must be a table.")


def test_settings_of_runs_and_of_the_queue_stand_side_by_side(project: Path) -> None:
    """Neither reader takes the other's for a mistake."""
    (project / "pyproject.toml").write_text(
        "[tool.codeflash-parallel]\nseed = 5\n[tool.codeflash-parallel.queue]\nlease = 100\n",
        encoding="utf-8",
    )
    environment = {variable_of("heartbeat"): "1", "CODEFLASH_PARALLEL_SUBMITTER": "ada"}
    assert read_settings(project, environment, {}).settings.seed == 5
    settings = read_queue_settings(project, {**environment, "CODEFLASH_PARALLEL_SEED": "6"}, {}).settings
    assert (settings.lease, settings.heartbeat) == (100.0, 1.0)


def test_a_misspelled_submitter_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean CODEFLASH_PARALLEL_SUBMITTER"):
        read_settings(project, {"CODEFLASH_PARALLEL_SUBMITER": "ada"}, {})


def test_every_option_says_what_it_means_and_its_default() -> None:
    parser = argparse.ArgumentParser(prog="serve")
    add_queue_settings(parser)
    helps = {action.dest: action.help or "" for action in parser._actions}
    for field in fields(QueueSettings):
        assert field.metadata["help"].replace("%", "%%") in helps[field.name]
    assert "Default: 30." in helps["lease"]
    assert "Default: fair." in helps["strategy"]
