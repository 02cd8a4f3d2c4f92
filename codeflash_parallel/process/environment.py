"""The environment of the project's processes: built from an allowlist.

Pure: mappings and paths in, mappings and paths out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

#: Tells tests which slot they are in, so that they can choose ports and database names.
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
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Build the complete environment of a slot's children.

    Args:
        base: the environment that we were started with; only what `config.environment_allowlist` allows is
            taken from it.
        private: the slot's private folder; `private_folders` are to be created in it.
        number: the slot's number, 0 for the baseline's.
        pass_env: names and patterns of variables that are passed on besides.
        extra: set last, over everything else.
    """
    return {
        **_taken_over(base, pass_env),
        **{name: str(private / folder) for name, folder in _FOLDERS.items()},
        # Children of tests write no byte code; the runner turns writing on for the slot itself.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": str(HASH_SEEDS[1]),
        SLOT_VARIABLE: str(number),
        **(extra or {}),
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
    # Not at the top: names of this module are asked for by those who hand in, who are to be quick.
    from codeflash_parallel.config.environment_allowlist import passed_names

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
