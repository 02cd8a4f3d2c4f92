"""Parsers made from the table of settings."""

from __future__ import annotations

import pytest

from codeflash_parallel.cli.options import add_settings, argument, make_parser, opposite_of
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.result.errors import UsageError


def parsed(*arguments: str) -> dict[str, object]:
    parser = make_parser("try", "Try.")
    add_settings(parser, (row for row in SETTINGS.values() if row.name != "cache_dir"))
    return vars(parser.parse_args(arguments))


def test_a_setting_that_is_not_given_leaves_no_trace() -> None:
    assert parsed().keys() == {"project", "output_format", "json", "output", "color"}
    assert parsed("--seed", "3")["seed"] == 3


@pytest.mark.parametrize(("flag", "opposite"), [("--strict", "--no-strict"), ("--no-select", "--select")])
def test_a_switch_has_an_opposite(flag: str, opposite: str) -> None:
    name = next(row.name for row in SETTINGS.values() if row.flag == flag)
    assert opposite_of(flag) == opposite
    assert parsed(flag)[name] is True
    assert parsed(flag, opposite)[name] is False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sed", "3"), "Did you mean --seed?"),
        (("--seed", "x"), "must be a whole number, not 'x'"),
        (("--json", "--output-format", "json"), "not allowed with"),
        (("--zzz",), "See codeflash-parallel try --help."),
    ],
)
def test_mistakes_are_usage_errors(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(*arguments)
    assert caught.value.code == "BAD_ARGUMENTS"
    assert said in str(caught.value)


def test_a_converter_names_the_kind_of_value() -> None:
    assert argument(int, "a whole number")("3") == 3
