from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.process.environment import identity, private_folders, project_environment

PRIVATE = Path("/cache/slot-3/private")
USER = {"HOME": "/home/user", "PATH": "/bin", "LANG": "C.UTF-8"}


def build(base=USER, pass_env=(), **extra):
    return project_environment(base, private=PRIVATE, number=3, pass_env=pass_env, extra=extra)


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


def test_extra_has_the_last_word():
    environment = build(HOME="/elsewhere", PYTHONHASHSEED="7")
    assert environment["HOME"] == "/elsewhere"
    assert environment["PYTHONHASHSEED"] == "7"


@given(st.dictionaries(st.text(), st.text()))
def test_the_base_is_left_alone_and_no_folder_of_the_user_shines_through(base):
    before = dict(base)
    environment = build(base)
    assert base == before
    assert environment["HOME"] == str(PRIVATE / "home")
    assert not [name for name in environment if name.startswith("GIT_")]
    assert build(base) == environment
