"""The environment of the project's processes, and the allowlist of the user's variables for it.

Candidates are written by others: whatever they can read, they can print, and it would stand in logs and
reports. So the rule is not which names look like secrets (no list of those is ever complete), but which names
tests are known to need. Pure: names in, names out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

#: Names the folder of the locks that keep checks away from what is timed for users that want to be
#: apart from the rest of the host.
QUIET_VARIABLE = "CODEFLASH_PARALLEL_QUIET_DIR"

#: What tests see without asking, each group with its reason. None of these is a place for a secret.
_NEEDED: tuple[tuple[str, ...], ...] = (
    # Programs and libraries are found by them; without them other ones run than in the user's shell.
    ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_BIND_NOW", "GI_TYPELIB_PATH"),
    # Texts, numbers, dates and sort orders come out by them; so do the bytes of file names.
    ("LANG", "LANGUAGE", "LC_*", "LOCPATH", "TZ", "TZDIR", "PYTHONTZPATH"),
    # Programs that draw ask how: widths and abilities, not what is on the screen.
    ("TERM", "COLORTERM", "COLUMNS", "LINES"),
    # Who runs it, as getpass.getuser and shells want to know; everybody on the machine can see it anyway.
    ("USER", "LOGNAME", "USERNAME", "SHELL"),
    # How the interpreter behaves once it runs, and where it finds modules.
    ("PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPLATLIBDIR"),
    ("PYTHONUTF8", "PYTHONIOENCODING", "PYTHONCOERCECLOCALE", "PYTHONUNBUFFERED", "PYTHONINTMAXSTRDIGITS"),
    ("PYTHONWARNINGS", "PYTHONWARNDEFAULTENCODING", "PYTHONDEVMODE", "PYTHONASYNCIODEBUG"),
    ("PYTHONFAULTHANDLER", "PYTHONTRACEMALLOC", "PYTHONMALLOC", "PYTHONNODEBUGRANGES"),
    ("PYTHON_GIL", "PYTHON_JIT", "PYTHON_CPU_COUNT"),
    # Options of the test runner, which may be the reason why the suite is green in the user's shell.
    ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"),
    # The name of a module: pytest-django runs nothing without it.
    ("DJANGO_SETTINGS_MODULE", "DJANGO_CONFIGURATION"),
    # Which environment is active; compiled packages find their data files by it.
    ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PROJ_LIB", "PROJ_DATA", "GDAL_DATA"),
    # How many threads there are, and on which devices: sums of floats come out by them, and forks fail.
    ("OMP_*", "GOMP_*", "KMP_*", "OPENBLAS_*", "MKL_*", "BLIS_*", "GOTO_NUM_THREADS", "TBB_NUM_THREADS"),
    ("NUMEXPR_*", "NUMBA_*", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS", "VECLIB_MAXIMUM_THREADS"),
    ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "JAX_PLATFORMS", "JAX_ENABLE_X64", "XLA_FLAGS"),
    ("KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL"),
    # How memory is given out: it decides peaks and speed.
    ("MALLOC_*", "GLIBC_TUNABLES"),
    # Tests of drawing run without a screen; DISPLAY itself is not here: it opens the user's own screen.
    ("MPLBACKEND", "QT_QPA_PLATFORM", "SDL_VIDEODRIVER", "SDL_AUDIODRIVER"),
    # Public certificates. Proxies are not here: their URLs hold passwords.
    ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    # That this is a build, which test runners and tests ask; not what the build knows.
    ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITLAB_CI"),
    # Times that are written into what is built.
    ("SOURCE_DATE_EPOCH",),
    # Tests that compile: the compiler and its options.
    ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "LIBRARY_PATH", "PKG_CONFIG_PATH"),
    # Where other runtimes are installed.
    ("JAVA_HOME", "SPARK_HOME", "R_HOME"),
)
_ALLOWED = tuple(pattern for group in _NEEDED for pattern in group)

#: Nobody can ask for these: they are ours to set, or with them a slot is no slot.
_REFUSED: tuple[tuple[str, ...], ...] = (
    # Folders of a slot, other names for them, and a shell's idea of where it is: the user's tree.
    ("HOME", "TMPDIR", "TEMP", "TMP", "PWD", "OLDPWD"),
    ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    # How the interpreter starts: the runner decides, and the user's shell must not.
    ("PYTHONSAFEPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONOPTIMIZE", "PYTHONHOME"),
    # Where byte code is written, and the order of sets.
    ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"),
    # Tracing started by a parent that measures coverage of *us*.
    ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COV_CORE_*"),
    # We may run below a pytest; the project's pytest must not think that it does.
    ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_*"),
    # Colour codes in messages would depend on the shell.
    ("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "PYTHON_COLORS", "CLICOLOR", "CLICOLOR_FORCE"),
    # They name a repository: git commands of tests would change the user's.
    ("GIT_*",),
    # Between us and our processes.
    ("CODEFLASH_PARALLEL_*",),
)
_NEVER = tuple(pattern for group in _REFUSED for pattern in group)

#: Of what tests see, these belong to a host: programs, devices and certificates lie elsewhere on another one.
_OF_A_HOST = (
    *("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "USER", "LOGNAME", "USERNAME", "SHELL"),
    *("VIRTUAL_ENV", "CONDA_*", "CUDA_*", "JAVA_HOME", "SPARK_HOME", "R_HOME"),
    *("SSL_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)

#: A name as shells have it, in which `*` may stand for anything.
_PATTERN = re.compile(r"[A-Za-z0-9_*]+")


def passed_names(names: Iterable[str], pass_env: Sequence[str]) -> tuple[str, ...]:
    """Return which variables the project's processes see, sorted.

    Args:
        names: those of the user's environment.
        pass_env: names and patterns that were asked for besides.
    """
    return tuple(sorted(name for name in names if _is_passed(name, pass_env)))


def requested_names(names: Iterable[str], pass_env: Sequence[str]) -> tuple[str, ...]:
    """Return which variables the project's processes see and were asked for, sorted."""
    return tuple(name for name in passed_names(names, pass_env) if _matches(name, tuple(pass_env)))


def shared_variables(environment: Mapping[str, str], pass_env: Sequence[str]) -> dict[str, str]:
    """Return what tests see of an environment and must see on every host of a run, by name.

    Args:
        environment: of the submitting process.
        pass_env: names and patterns that were asked for.
    """
    seen = passed_names(environment, pass_env)
    asked = tuple(pass_env)
    return {n: environment[n] for n in seen if _matches(n, asked) or not _matches(n, _OF_A_HOST)}


def with_shared(own: Mapping[str, str], shared: Mapping[str, str], pass_env: Sequence[str]) -> dict[str, str]:
    """Return a host's environment in which tests see what they see in the submitting process.

    Args:
        own: the host's.
        shared: as `shared_variables` returns them.
        pass_env: names and patterns that were asked for.
    """
    replaced = shared_variables(own, pass_env)
    return {**{name: value for name, value in own.items() if name not in replaced}, **shared}


def withheld_names(names: Iterable[str], pass_env: Sequence[str]) -> tuple[str, ...]:
    """Return which variables the project's processes do not see although they could be asked for, sorted."""
    return tuple(sorted(n for n in names if not _is_passed(n, pass_env) and not _matches(n, _NEVER)))


def uncovered(asked: Iterable[str], passed: Sequence[str]) -> tuple[str, ...]:
    """Return which of the names and patterns that are asked for none of those that are passed on covers.

    A pattern is covered by one that matches its text: whatever its stars stand for is matched, too.
    """
    return tuple(pattern for pattern in asked if not _matches(pattern, tuple(passed)))


def why_not_pattern(pattern: str) -> str:
    """Return why a name or pattern cannot be asked for, one clause; empty when it can.

    A pattern may match names that cannot be asked for: those stay out. The clause does not repeat what was
    given: ``NAME=value`` is the usual mistake, and the value may be a secret.
    """
    if "=" in pattern:
        return "takes names, not values: set the variable, and name it"
    if not _PATTERN.fullmatch(pattern):
        return "takes names of letters, digits and underscores, and * for anything"
    if _matches(pattern, _NEVER):
        return f"cannot have {pattern}, which is ours to set or would break a slot"
    return ""


def mentioned(names: Collection[str], text: str) -> tuple[str, ...]:
    """Return those of the names that a text speaks of, as whole words, in the order of the text."""
    words = dict.fromkeys(re.findall(r"\w+", text))
    return tuple(word for word in words if word in names and word != "_")


def _is_passed(name: str, pass_env: Sequence[str]) -> bool:
    return _matches(name, (*_ALLOWED, *pass_env)) and not _matches(name, _NEVER)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return _compiled(patterns).fullmatch(name) is not None


@cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Return one expression for all patterns: environments have hundreds of names, and slots are many."""
    return re.compile("|".join(pattern.replace("*", ".*") for pattern in patterns) or r"(?!)", re.DOTALL)


#: Tells tests which slot they are in, so that they can choose ports and database names; 1 where a slot is
#: alone in its sandbox.
SLOT_VARIABLE = "CODEFLASH_PARALLEL_SLOT"

#: Hash seeds of the two baseline runs: fixed, so that the same snapshot gives the same findings. Checks have
#: no others: two runs do not find out everything that depends on the order of a set, and what they miss would
#: be another with every seed. Slots have the second one.
HASH_SEEDS = (1, 2)

#: Variables that are ours to set, by the folder below a slot's private one that they name.
_FOLDERS = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "XDG_CACHE_HOME": "cache",
    "XDG_CONFIG_HOME": "config",
    "XDG_DATA_HOME": "data",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
}
#: Slots share the cores, and a process in which a library has started threads cannot be forked. The same in
#: every process of a run: with other threads, sums of floats come out otherwise.
_THREAD_CAPS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
#: They change from window to window, and no test may depend on them in a slot anyway.
_OF_THE_WINDOW = frozenset({"TERM", "COLORTERM", "COLUMNS", "LINES"})


def project_environment(
    base: Mapping[str, str],
    *,
    private: Path,
    number: int,
    pass_env: Sequence[str] = (),
) -> dict[str, str]:
    """Build the complete environment of a slot's children.

    Args:
        base: the environment that we were started with; only what the allowlist allows is
            taken from it.
        private: the slot's private folder; `private_folders` are to be created in it.
        number: the slot's number, 0 for the baseline's.
        pass_env: names and patterns of variables that are passed on besides.
    """
    return {
        **_taken_over(base, pass_env),
        **{name: str(private / folder) for name, folder in _FOLDERS.items()},
        # Children of tests write no byte code; the runner turns writing on for the slot itself.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": str(HASH_SEEDS[1]),
        SLOT_VARIABLE: str(number),
    }


def identity(base: Mapping[str, str], pass_env: Sequence[str]) -> list[tuple[str, str]]:
    """Return what findings about the baseline depend on, of the user's environment: names and values, sorted.

    Args:
        base: the environment that we were started with.
        pass_env: names and patterns of variables that are passed on besides.
    """
    taken = _taken_over(base, pass_env)
    return sorted((name, value) for name, value in taken.items() if name not in _OF_THE_WINDOW)


def private_folders(private: Path) -> tuple[Path, ...]:
    """Return the folders that `project_environment` names; create them with mode 0700."""
    return tuple(private / folder for folder in _FOLDERS.values())


def _taken_over(base: Mapping[str, str], pass_env: Sequence[str]) -> dict[str, str]:
    """Return what comes from the user's environment."""
    passed = {name: base[name] for name in passed_names(base, pass_env)}
    return {**passed, **_numeric_threads(base), **_user_base(base)}


def _numeric_threads(base: Mapping[str, str]) -> dict[str, str]:
    """Return how many threads numeric libraries may start: one, unless the user has said how many."""
    return {name: base.get(name, "1") for name in _THREAD_CAPS}


def _user_base(base: Mapping[str, str]) -> dict[str, str]:
    """Keep packages of ``pip install --user`` importable although `HOME` changes."""
    if "PYTHONUSERBASE" in base or "HOME" not in base:
        return {}
    return {"PYTHONUSERBASE": str(Path(base["HOME"]) / ".local")}
