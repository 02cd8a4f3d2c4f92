from __future__ import annotations

import argparse

import pytest

import codeflash_parallel
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.hosts.argparse_option import VARIABLE, add_parallel_candidates_option


def parsed(arguments=(), *, parser=None, **kwargs):
    parser = parser or argparse.ArgumentParser()
    kwargs.setdefault("environ", {})
    add_parallel_candidates_option(parser, **kwargs)
    return parser.parse_args(list(arguments)).parallel_candidates


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "auto"),
        (["--parallel-candidates", "4"], 4),
        (["--parallel-candidates=auto"], "auto"),
        (["-j", "2"], 2),
        (["-j3"], 3),
    ],
)
def test_the_option_reads_a_number_or_auto(arguments, expected):
    value = parsed(arguments)
    assert value == expected
    assert Settings(parallel_candidates=value).parallel_candidates == expected


def test_default_and_environment():
    assert parsed(default=1) == 1
    assert parsed(default=1, environ={VARIABLE: "3"}) == 3
    assert parsed(environ={VARIABLE: "auto"}, default=2) == "auto"
    assert parsed(environ={VARIABLE: ""}, default=2) == 2
    assert parsed(["-j", "5"], environ={VARIABLE: "3"}) == 5


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "", "٣x"])
def test_nonsense_is_refused_with_the_hosts_own_error(value, capsys):
    with pytest.raises(SystemExit) as caught:
        parsed(["--parallel-candidates=" + value])
    assert caught.value.code == 2
    assert "must be a positive number or auto" in capsys.readouterr().err


def test_nonsense_in_the_environment_is_refused_unless_overridden(capsys):
    with pytest.raises(SystemExit):
        parsed(environ={VARIABLE: "many"})
    assert "'many'" in capsys.readouterr().err
    assert parsed(["-j1"], environ={VARIABLE: "many"}) == 1


@pytest.mark.parametrize("handler", ["error", "resolve"])
def test_a_short_option_of_the_host_stays_the_hosts(handler):
    parser = argparse.ArgumentParser(conflict_handler=handler)
    parser.add_argument("-j", "--jobs", type=int)
    add_parallel_candidates_option(parser, environ={})
    args = parser.parse_args(["-j", "7", "--parallel-candidates", "2"])
    assert (args.jobs, args.parallel_candidates) == (7, 2)


def test_help_shows_it():
    parser = argparse.ArgumentParser(prog="host")
    add_parallel_candidates_option(parser, environ={}, default=1)
    text = " ".join(parser.format_help().split())
    assert "--parallel-candidates N|auto" in text
    assert f"(default: 1, or ${VARIABLE})" in text


def test_it_is_public():
    assert codeflash_parallel.add_parallel_candidates_option is add_parallel_candidates_option
