"""Which names of the user's environment are passed on, asked for, withheld, refused, and spoken of."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.config.environment import (
    identity,
    mentioned,
    passed_names,
    private_folders,
    project_environment,
    requested_names,
    shared_variables,
    uncovered,
    why_not_pattern,
    with_shared,
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


PRIVATE = Path("/cache/slot-3/private")
USER = {"HOME": "/home/user", "PATH": "/bin", "LANG": "C.UTF-8"}


def build(base=USER, pass_env=()):
    return project_environment(base, private=PRIVATE, number=3, pass_env=pass_env)


def test_a_slot_has_folders_of_its_own():
    environment = build()
    names = (
        "HOME",
        "TMPDIR",
        *(f"XDG_{x}" for x in ("CACHE_HOME", "CONFIG_HOME", "DATA_HOME", "STATE_HOME", "RUNTIME_DIR")),
    )
    assert {Path(environment[name]) for name in names} == set(private_folders(PRIVATE))
    assert all(folder.parent == PRIVATE for folder in private_folders(PRIVATE))
    assert environment["CODEFLASH_PARALLEL_SLOT"] == "3"
    assert environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_user_packages_stay_importable():
    assert build()["PYTHONUSERBASE"] == "/home/user/.local"
    assert build({**USER, "PYTHONUSERBASE": "/opt/base"})["PYTHONUSERBASE"] == "/opt/base"
    assert "PYTHONUSERBASE" not in build({"PATH": "/bin"})


def test_what_the_project_needs_is_kept():
    base = {
        **USER,
        "PYTHONPATH": "lib",
        "VIRTUAL_ENV": "/venv",
        "PYTEST_ADDOPTS": "-q",
        "PYTEST_PLUGINS": "x",
        "DJANGO_SETTINGS_MODULE": "site.settings",
        "LC_TIME": "C",
        "TZ": "UTC",
        "CI": "true",
        "LD_LIBRARY_PATH": "/lib",
        "SSL_CERT_FILE": "/certificates",
        "OMP_PLACES": "cores",
    }
    environment = build(base)
    assert {name: environment[name] for name in base if name != "HOME"} == {
        k: v for k, v in base.items() if k != "HOME"
    }


def test_what_breaks_or_betrays_a_slot_is_removed():
    names = [
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "PYTHONSAFEPATH",
        "PYTHONSTARTUP",
        "PYTHONINSPECT",
        "PYTHONBREAKPOINT",
        "PYTHONOPTIMIZE",
        "PYTHONHOME",
        "COVERAGE_PROCESS_START",
        "COV_CORE_SOURCE",
        "PYTEST_XDIST_WORKER",
        "PYTEST_XDIST_TESTRUNUID",
        "PYTEST_CURRENT_TEST",
        "NO_COLOR",
        "FORCE_COLOR",
        "PY_COLORS",
        "PYTHONPYCACHEPREFIX",
        "PWD",
        "TMP",
    ]
    assert not set(names) & set(build({**USER, **dict.fromkeys(names, "1")}))


SECRETS = {"AWS_SECRET_ACCESS_KEY": "s3cret", "MYTOKEN": "s3cret", "https_proxy": "http://me:s3cret@proxy"}


def test_nothing_that_is_not_known_to_be_needed_is_passed_on():
    environment = build({**USER, **SECRETS, "SSH_AUTH_SOCK": "/s3cret", "XLC_ALL": "s3cret"})
    assert "s3cret" not in repr(environment)


def test_what_is_asked_for_is_passed_on():
    environment = build({**USER, **SECRETS}, pass_env=("AWS_*", "https_proxy"))
    assert environment["AWS_SECRET_ACCESS_KEY"] == "s3cret"
    assert environment["https_proxy"] == SECRETS["https_proxy"]
    assert "MYTOKEN" not in environment


def test_a_pattern_for_everything_passes_nothing_that_breaks_a_slot():
    base = {**USER, **SECRETS, "GIT_DIR": "/repository", "PYTHONOPTIMIZE": "1", "HOME": "/home/user"}
    environment = build(base, pass_env=("*",))
    assert SECRETS.items() <= environment.items()
    assert not {"GIT_DIR", "PYTHONOPTIMIZE"} & set(environment)
    assert environment["HOME"] == str(PRIVATE / "home")


def test_findings_depend_on_what_is_passed_on_and_on_nothing_else():
    known = identity({**USER, **SECRETS}, ("MYTOKEN",))
    assert identity({**USER, **SECRETS, "OTHER": "1", "TERM": "vt100"}, ("MYTOKEN",)) == known
    assert identity({**USER, **SECRETS, "MYTOKEN": "other"}, ("MYTOKEN",)) != known
    assert identity({**USER, **SECRETS}, ()) != known
    assert identity({**USER, **SECRETS, "LANG": "de_DE.UTF-8"}, ("MYTOKEN",)) != known
    assert ("OMP_NUM_THREADS", "1") in known


def test_numeric_libraries_use_one_thread_unless_told():
    assert build()["OMP_NUM_THREADS"] == "1"
    told = build({**USER, "OMP_NUM_THREADS": "4"})
    assert (told["OMP_NUM_THREADS"], told["MKL_NUM_THREADS"]) == ("4", "1")


@given(st.dictionaries(st.text(), st.text()))
def test_the_base_is_left_alone_and_no_folder_of_the_user_shines_through(base):
    before = dict(base)
    environment = build(base)
    assert base == before
    assert environment["HOME"] == str(PRIVATE / "home")
    assert not [name for name in environment if name.startswith("GIT_")]
    assert build(base) == environment


def test_tests_see_on_a_host_what_they_see_in_the_submitting_process() -> None:
    here = {
        "PATH": "/here",
        "PYTEST_ADDOPTS": "-p no:asyncio",
        "LANG": "C",
        "TOKEN": "t",
        "HOME": "/h",
        "MY_DATA": "d",
    }
    there = {
        "PATH": "/there",
        "OMP_NUM_THREADS": "1",
        "LANG": "de_DE",
        "HOME": "/home",
        "MY_OWN": "o",
        "SECRET": "s",
    }

    shared = shared_variables(here, ["MY_*"])

    assert shared == {"PYTEST_ADDOPTS": "-p no:asyncio", "LANG": "C", "MY_DATA": "d"}
    assert with_shared(there, shared, ["MY_*"]) == {
        "PATH": "/there",
        "HOME": "/home",
        "SECRET": "s",
        **shared,
    }
