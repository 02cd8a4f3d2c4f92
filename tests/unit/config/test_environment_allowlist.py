"""Which names of the user's environment are passed on, asked for, withheld, refused, and spoken of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.config.environment_allowlist import (
    mentioned,
    passed_names,
    requested_names,
    uncovered,
    why_not_pattern,
    withheld_names,
)
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import UsageError

NAMES = ["PATH", "LC_ALL", "API_KEY", "API_URL", "HOME", "GIT_DIR", "TERM"]
names = st.lists(st.sampled_from([*NAMES, "x", "PYTHONHASHSEED", "OMP_X"]) | st.text(max_size=5), max_size=8)


def test_every_name_has_one_fate() -> None:
    assert passed_names(NAMES, ()) == ("LC_ALL", "PATH", "TERM")
    assert withheld_names(NAMES, ()) == ("API_KEY", "API_URL")
    assert passed_names(NAMES, ("API_*",)) == ("API_KEY", "API_URL", "LC_ALL", "PATH", "TERM")
    assert withheld_names(NAMES, ("API_K*",)) == ("API_URL",)
    assert requested_names(NAMES, ("API_*", "ABSENT", "HOM*")) == ("API_KEY", "API_URL")


@given(names, st.lists(st.sampled_from(["API_*", "*", "x", "HOME"]), max_size=2))
def test_what_is_passed_is_not_withheld_and_asking_takes_nothing_away(
    some: list[str], asked: list[str]
) -> None:
    assert not set(passed_names(some, asked)) & set(withheld_names(some, asked))
    assert set(passed_names(some, ())) <= set(passed_names(some, asked))
    assert set(requested_names(some, asked)) <= set(passed_names(some, asked))
    assert not {"HOME", "GIT_DIR", "PYTHONHASHSEED"} & set(passed_names(some, asked))


@pytest.mark.parametrize("pattern", ["API_KEY", "API_*", "*", "https_proxy", "HO*"])
def test_what_can_be_asked_for(pattern: str) -> None:
    assert Settings(pass_env=(pattern,)).pass_env == (pattern,)


@pytest.mark.parametrize(
    "pattern",
    ["HOME", "TMPDIR", "GIT_DIR", "GIT_AUTHOR_NAME", "PYTHONHASHSEED", "PYTEST_CURRENT_TEST", "", "A B"],
)
def test_what_cannot_be_asked_for(pattern: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings(pass_env=("OK", pattern))
    assert caught.value.code == "BAD_SETTING"
    assert caught.value.message.startswith("pass_env ")


def test_a_value_that_was_given_by_mistake_is_not_repeated() -> None:
    with pytest.raises(UsageError) as caught:
        Settings(pass_env=("API_KEY=s3cret",))
    assert "names, not values" in caught.value.message
    assert "s3cret" not in str(caught.value)
    assert why_not_pattern("API_KEY") == ""


def test_names_are_found_in_what_tests_say_as_whole_words() -> None:
    said = "KeyError: 'API_KEY'\n>   url = os.environ['API_URL'] + _\nMY_API_KEYS"
    assert mentioned(["API_URL", "API", "API_KEY", "_", "KEYS"], said) == ("API_KEY", "API_URL")
    assert mentioned([], said) == ()


@pytest.mark.parametrize(
    ("asked", "passed", "left"),
    [
        (("DB_URL",), (), ("DB_URL",)),
        (("DB_URL", "TOKEN"), ("DB_*",), ("TOKEN",)),
        (("DB_*",), ("DB_*",), ()),
        (("DB_*",), ("DB_URL",), ("DB_*",)),
        (("D*_U*",), ("D*",), ()),
        (("*",), ("DB_*",), ("*",)),
        (("*", "DB_*"), ("*",), ()),
    ],
)
def test_what_is_asked_for_is_covered_or_it_is_not(
    asked: tuple[str, ...], passed: tuple[str, ...], left: tuple[str, ...]
) -> None:
    assert uncovered(asked, passed) == left


patterns = st.lists(st.text("AB_*", min_size=1, max_size=4), max_size=3)


@given(patterns, patterns, st.lists(st.text("AB_", min_size=1, max_size=4)))
def test_a_covered_pattern_asks_for_nothing_more(
    asked: list[str], passed: list[str], some: list[str]
) -> None:
    covered = [pattern for pattern in asked if not uncovered([pattern], passed)]
    assert set(requested_names(some, covered)) <= set(requested_names(some, passed))
