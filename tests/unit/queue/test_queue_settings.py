from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from codeflash_parallel.cli.options import Parser, add_settings
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.config.settings_table import INTEGER, INTEGERS, NUMBER, NUMBERS, RATE, key_of
from codeflash_parallel.queue.jobs import Overflow, Strategy
from codeflash_parallel.queue.queue_settings import (
    QUEUE_SETTINGS,
    QueueSettings,
    StartRate,
    read_queue_settings,
)
from codeflash_parallel.result.errors import UsageError

# Settings


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_concurrent": -1}, "max_concurrent must be at least 0"),
        ({"queue_timeout": float("nan")}, "queue_timeout must be a finite number"),
        ({"lease": float("inf")}, "lease must be a finite number"),
        ({"queue_timeout": 1e300}, "queue_timeout must be at most 8589934592"),
        ({"max_queue_size": 10**400}, "max_queue_size must be at most"),
        ({"max_attempts": 0}, "max_attempts must be at least 1"),
        ({"lease": 10.0, "heartbeat": 6.0}, "at least twice the heartbeat"),
        ({"weights": {"a": 0.0}}, "weights of 'a' must be at least 0.001, not 0.0"),
        ({"weights": {"a": 1001.0}}, "weights of 'a' must be at most 1000, not 1001.0"),
        ({"weights": {"a": float("nan")}}, "weights of 'a' must be a finite number"),
        ({"kind_limits": {"race": 0}}, "kind_limits of 'race' must be at least 1"),
        ({"kind_limits": {"run": 1}}, "kind_limits must name"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, object], why: str):
    with pytest.raises(UsageError, match=why) as refused:
        QueueSettings(**changes)
    assert refused.value.code == "BAD_SETTING"


def test_defaults_are_those_of_the_contract():
    settings = QueueSettings()
    assert (settings.strategy, settings.lease, settings.heartbeat) == (Strategy.FAIR, 30.0, 10.0)
    assert (settings.queue_timeout, settings.max_attempts, settings.overflow) == (86_400.0, 3, "reject")
    assert len(QUEUE_SETTINGS) == 14


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("", None),
        ("1/5m", StartRate(1, 300_000)),
        ("30/60s", StartRate(30, 60_000)),
        ("2/1.5h", StartRate(2, 5_400_000)),
        ("100/1d", StartRate(100, 86_400_000)),
    ],
)
def test_a_rate_is_a_count_per_span(text: str, rate: StartRate | None):
    assert QueueSettings(rate_limit=text).start_rate == rate


@pytest.mark.parametrize(
    "text",
    ["30", "1/5", "/5m", "1/", "1/m", "0/5m", "-1/5m", "1.5/5m", "1/0s", "1/5w", "1/5m/2", "5m/1", "x"],
)
def test_what_is_no_rate_is_told_in_one_line(text: str):
    said = f"rate_limit must be a count per span such as 1/5m, units s, m, h and d, not {text!r}."
    with pytest.raises(UsageError, match=re.escape(said)):
        QueueSettings(rate_limit=text)


# Sources

#: A value of each kind: as text, as arguments, in TOML, as it is read; and in TOML what is not of the kind.
VALUES = {
    INTEGER: ("7", ["7"], "7", 7, "7.5"),
    NUMBER: ("70.5", ["70.5"], "70.5", 70.5, '"70"'),
    QUEUE_SETTINGS["strategy"].kind: ("fifo", ["fifo"], '"fifo"', Strategy.FIFO, '"lifo"'),
    QUEUE_SETTINGS["overflow"].kind: ("drop-oldest", ["drop-oldest"], '"drop-oldest"', Overflow.DROP_OLDEST, "true"),
    NUMBERS: ("ada=2 'b ob=x'=0.5", ["ada=2", "b ob=x=0.5"], '{ada = 2, "b ob=x" = 0.5}', {"ada": 2.0, "b ob=x": 0.5}, '{ada = "2"}'),
    INTEGERS: ("race=1", ["race=1"], "{race = 1}", {"race": 1}, "{race = 1.5}"),
    RATE: ("1/5m", ["1/5m"], '"1/5m"', "1/5m", "30"),
}  # fmt: skip
#: A value that suits a setting better than just any of its kind.
OWN = {"heartbeat": "0.5"}


def example(name: str) -> tuple[str, list[str], str, object]:
    if name in OWN:
        return OWN[name], [OWN[name]], OWN[name], float(OWN[name])
    return VALUES[QUEUE_SETTINGS[name].kind][:4]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(project: Path, *lines: str) -> None:
    text = "\n".join(["[tool.codeflash-parallel.queue]", *lines])
    (project / "pyproject.toml").write_text(f"{text}\n", encoding="utf-8")


def parsed(*arguments: str) -> Mapping[str, object]:
    parser = Parser(prog="serve")
    add_settings(parser, QUEUE_SETTINGS.values())
    return vars(parser.parse_args(arguments))


def refused(project: Path, environment: Mapping[str, str] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        read_queue_settings(project, environment or {}, {})
    return f"{caught.value.code}: {caught.value}"


def test_nothing_said_is_the_default(project: Path) -> None:
    configured = read_queue_settings(project, {}, {})
    assert configured.settings == QueueSettings()
    assert configured.sources == dict.fromkeys(QUEUE_SETTINGS, "default")


@pytest.mark.parametrize("name", QUEUE_SETTINGS)
def test_every_setting_can_come_from_each_source(name: str, project: Path) -> None:
    text, arguments, toml, value = example(name)
    from_variable = read_queue_settings(project, {QUEUE_SETTINGS[name].variable: text}, {})
    given = parsed(QUEUE_SETTINGS[name].flag, *arguments)
    from_option = read_queue_settings(project, {}, given)
    write(project, f"{key_of(name)} = {toml}")
    from_file = read_queue_settings(project, {}, {})
    for configured in (from_variable, from_option, from_file):
        assert getattr(configured.settings, name) == value
        assert configured.sources[name] != "default"
    assert value != getattr(QueueSettings(), name)


@pytest.mark.parametrize("name", QUEUE_SETTINGS)
def test_a_value_of_the_wrong_kind_is_refused_with_the_place_it_came_from(name: str, project: Path) -> None:
    kind = QUEUE_SETTINGS[name].kind
    write(project, f"{key_of(name)} = {VALUES[kind][4]}")
    assert refused(project).startswith(
        f"BAD_SETTING: {project / 'pyproject.toml'}: {key_of(name)} must be {kind.words}"
    )
    if kind == RATE:  # its table says what is wrong
        write(project, 'rate-limit = "x y"')
        said = refused(project)
        assert said.startswith(
            f"BAD_SETTING: rate_limit must be {kind.words}, not 'x y'. It comes from: {project}"
        )
        return
    (project / "pyproject.toml").unlink()
    assert refused(project, {QUEUE_SETTINGS[name].variable: "x y"}).startswith(
        f"BAD_SETTING: {QUEUE_SETTINGS[name].variable} must be"
    )
    with pytest.raises(UsageError, match=f"{QUEUE_SETTINGS[name].flag}: must be"):
        parsed(QUEUE_SETTINGS[name].flag, "x y")


def test_the_last_source_wins(project: Path) -> None:
    write(project, "lease = 100", "max-queue-size = 3", 'strategy = "fifo"')
    environment = {QUEUE_SETTINGS["lease"].variable: "200", QUEUE_SETTINGS["max_queue_size"].variable: "4"}
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
    environment = {QUEUE_SETTINGS["heartbeat"].variable: "1", "CODEFLASH_PARALLEL_SUBMITTER": "ada"}
    assert read_settings(project, environment, {}).settings.seed == 5
    settings = read_queue_settings(project, {**environment, "CODEFLASH_PARALLEL_SEED": "6"}, {}).settings
    assert (settings.lease, settings.heartbeat) == (100.0, 1.0)


def test_a_misspelled_submitter_is_refused(project: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean CODEFLASH_PARALLEL_SUBMITTER"):
        read_settings(project, {"CODEFLASH_PARALLEL_SUBMITER": "ada"}, {})


def test_every_option_says_what_it_means_and_its_default() -> None:
    parser = argparse.ArgumentParser(prog="serve")
    add_settings(parser, QUEUE_SETTINGS.values())
    helps = {action.dest: action.help or "" for action in parser._actions}
    for row in QUEUE_SETTINGS.values():
        assert row.help.replace("%", "%%") in helps[row.name]
    assert "Default: 30." in helps["lease"]
    assert "Default: fair." in helps["strategy"]


# Figures
