"""The environment of the project's processes: the user's own, less what breaks or betrays a slot.

Pure: mappings and paths in, mappings and paths out.
"""

from __future__ import annotations

from collections.abc import Mapping
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
_REMOVED = frozenset(
    {
        # How the interpreter starts: the guest decides, and the user's shell must not.
        *(
            "PYTHONSAFEPATH",
            "PYTHONSTARTUP",
            "PYTHONINSPECT",
            "PYTHONBREAKPOINT",
            "PYTHONOPTIMIZE",
            "PYTHONHOME",
        ),
        # Would put byte code outside the slot.
        "PYTHONPYCACHEPREFIX",
        # Tracing started by a parent that measures coverage of *us*.
        *("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"),
        # We may run below a pytest; the project's pytest must not think that it does.
        *("PYTEST_CURRENT_TEST", "PYTEST_VERSION"),
        # Colour codes in messages would depend on who started us.
        *("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "PYTHON_COLORS", "CLICOLOR", "CLICOLOR_FORCE"),
        # Other names for TMPDIR, and a shell's idea of where it is: the user's tree.
        *("TEMP", "TMP", "PWD", "OLDPWD"),
    }
)
_REMOVED_PREFIXES = ("GIT_", "PYTEST_XDIST_", "COV_CORE_")


def project_environment(
    base: Mapping[str, str],
    *,
    private: Path,
    number: int,
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Build the complete environment of a slot's children.

    Args:
        base: the environment that we were started with.
        private: the slot's private folder; `private_folders` are to be created in it.
        number: the slot's number, 0 for the baseline's.
        extra: set last, over everything else.
    """
    kept = {name: value for name, value in base.items() if not _is_removed(name)}
    return {
        **kept,
        **numeric_threads(base),
        **_user_base(base),
        **{name: str(private / folder) for name, folder in _FOLDERS.items()},
        # Children of tests write no byte code; the guest turns writing on for the slot itself.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": str(HASH_SEEDS[1]),
        SLOT_VARIABLE: str(number),
        **(extra or {}),
    }


def numeric_threads(base: Mapping[str, str]) -> dict[str, str]:
    """Return how many threads numeric libraries may start: one, unless the user has said how many."""
    return {name: base.get(name, "1") for name in _THREAD_CAPS}


def private_folders(private: Path) -> tuple[Path, ...]:
    """Return the folders that `project_environment` names; create them with mode 0700."""
    return tuple(private / folder for folder in _FOLDERS.values())


def _is_removed(name: str) -> bool:
    return name in _REMOVED or name.startswith(_REMOVED_PREFIXES)


def _user_base(base: Mapping[str, str]) -> dict[str, str]:
    """Keep packages of ``pip install --user`` importable although `HOME` changes."""
    if "PYTHONUSERBASE" in base or "HOME" not in base:
        return {}
    return {"PYTHONUSERBASE": str(Path(base["HOME"]) / ".local")}
