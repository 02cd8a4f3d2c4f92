"""Every setting of a run, with its default, its unit and its help text; and settings as JSON. Light."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from codeflash_parallel import __version__
from codeflash_parallel.config.environment import why_not_pattern
from codeflash_parallel.config.settings_table import (
    PREFIX,
    Parallel,
    SettingColumns,
    SettingGroup,
    bad_setting,
    check_values,
    columns_of,
    setting,
    switch,
)
from codeflash_parallel.result.errors import EnvironmentFault


class ComparisonMode(StrEnum):
    """Basis of "equivalent"."""

    #: Test outcomes and the values of captured calls.
    VALUES = "values"
    #: Test outcomes only.
    PASS_FAIL = "pass-fail"  # noqa: S105 - not a password


class InputDepth(StrEnum):
    """Amount of fresh inputs that each candidate is compared on."""

    #: As many as cost little beside the tests.
    QUICK = "quick"
    #: Those that take the baseline a second, raced or not.
    FULL = "full"


class Executor(StrEnum):
    """Places where candidates are evaluated."""

    #: In this process.
    LOCAL = "local"
    #: By the daemon of the evaluation queue, in turn with what others have submitted.
    QUEUE = "queue"
    #: By the nodes of a Ray cluster.
    RAY = "ray"
    #: By jobs of Slurm.
    SLURM = "slurm"

    @property
    def is_cluster(self) -> bool:
        """True if other hosts check the candidates, and one of them races those that pass."""
        return self in {Executor.RAY, Executor.SLURM}


class RankingMode(StrEnum):
    """Order of candidates that the race cannot tell apart."""

    #: By their estimated speed; among equals the smallest diff is named the winner.
    FASTEST = "fastest"
    #: By the size of their diffs.
    SMALLEST_DIFF = "smallest-diff"


#: The highest isolation level that works.
AUTO = "auto"

#: Files that git ignores and tests may need all the same; matched on the base name and on the whole path.
INCLUDE_IGNORED = ("*.so", "*.pyd", "*.py", ".env", "*.egg-info/*", "*.dist-info/*")


RACE, CONDITIONS, PLACE = SettingGroup.RACE, SettingGroup.CONDITIONS, SettingGroup.PLACE


def _why_not_place(place: str) -> str:
    path, separator, name = place.partition("::")
    fits = path.endswith(".py") and separator and name.isidentifier()
    return "" if fits else f"must name a callable as path.py::name, not {place!r}"


def _why_not_encoder(encoder: str) -> str:
    path, _, name = encoder.rpartition("::" if "::" in encoder else ":")
    is_module = "::" not in encoder and all(part.isidentifier() for part in path.split("."))
    fits = (path.endswith(".py") or is_module) and name.isidentifier()
    return "" if fits else f"must name functions as path.py::name or module:name, not {encoder!r}"


def _why_not_ranking(order: str) -> str:
    place, _, name = order.rpartition(":")
    fits = order in list(RankingMode) or (place and name.isidentifier())
    return "" if fits else f"must be {', '.join(RankingMode)} or module:name, not {order!r}"


def _why_not_name(name: str) -> str:
    fits = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name)
    return "" if fits else f"must be up to 64 letters, digits, dots, dashes or underscores, not {name!r}"


def _why_not_level(level: str, *others: str) -> str:
    from codeflash_parallel.result.isolation_policy import IsolationLevel  # settings are made at every start

    words = ", ".join((*others, *IsolationLevel))
    return "" if level in list(IsolationLevel) else f"must be one of {words}, not {level!r}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of a run. Times in seconds, sizes in MiB: this is the border where people write them."""

    functions: tuple[str, ...] = setting(
        (),
        "Target function, path.py::Class.method; may be repeated.",
        flag="--function",
        metavar="PATH::NAME",
    )
    parallel_candidates: Parallel = setting(
        "auto",
        "How many candidates are evaluated at once; auto: as many as the cores and the memory allow.",
        short="-j",
        variable="CANDIDATES",
        minimum=1,
        group=CONDITIONS,
    )
    base: str = setting(
        "", "Git ref to start from; empty: the tree as it is, uncommitted work included.", metavar="REF"
    )
    tests: tuple[str, ...] = setting(
        (),
        "Test files, folders or ids; empty: what the project's configuration says.",
        metavar="PATH",
        takes_several=True,
    )
    keyword: str = setting(
        "", "Only tests that match this pytest -k expression.", flag="-k", metavar="EXPRESSION"
    )
    marker: str = setting(
        "", "Only tests that match this pytest -m expression.", flag="-m", metavar="EXPRESSION"
    )
    extra_tests: str = setting(
        "", "Folder of tests overlaid into every slot, absent from your tree.", metavar="DIR"
    )
    python: str = setting(
        "",
        "Interpreter that runs the tests; empty: .venv of the repository, else the current one.",
        metavar="PATH",
    )
    compare: ComparisonMode = setting(
        ComparisonMode.VALUES,
        "What is compared: test outcomes and values, or outcomes only.",
        choices=ComparisonMode,
    )
    strict: bool = switch("Reject for hints, too: unlike inputs, rounding, side state, scratch arguments.")
    rtol: float = setting(
        0.0, "Largest difference of a float from the baseline's that is accepted, relative to it; 0: exact."
    )
    atol: float = setting(
        0.0, "The same as an absolute number; both given: atol + rtol times the baseline's."
    )
    encoders: tuple[str, ...] = setting(
        (),
        "Function that takes values of your own types apart so that they can be compared, path.py::name or "
        "module:name; may be repeated.",
        flag="--encoder",
        metavar="PATH::NAME|MODULE:NAME",
        why_not=_why_not_encoder,
    )
    accept: str = setting(
        "",
        "Your judge of results that differ, for functions with several right answers: "
        "accept(arguments, expected, actual) -> bool, path.py::name.",
        metavar="PATH::NAME",
        why_not=_why_not_place,
    )
    depth: str = setting(
        InputDepth.QUICK.value,
        "How many fresh inputs candidates are compared on: quick; or full, those that take the baseline a "
        "second, for each candidate two or three.",
        choices=InputDepth,
    )
    include_ignored: tuple[str, ...] = setting(
        INCLUDE_IGNORED,
        "Patterns of git-ignored files that are part of the snapshot.",
        metavar="PATTERN",
        takes_several=True,
    )
    pass_env: tuple[str, ...] = setting(
        (),
        "Variable of your environment that tests and candidates may see, NAME or a pattern with *; may be "
        "repeated. Without it they see those that tests commonly need, and no secrets.",
        metavar="NAME",
        why_not=why_not_pattern,
    )
    isolation: str = setting(
        AUTO,
        "How far candidates are kept apart from the machine: none, landlock or sandbox; `doctor` shows which "
        "work here, and which one auto is.",
        metavar="auto|none|landlock|sandbox",
        why_not=lambda level: _why_not_level(level, AUTO),
    )
    require_isolation: str = setting(
        "",
        "Lowest isolation level that will do; a run that cannot have it ends with exit code 4.",
        metavar="LEVEL",
        why_not=_why_not_level,
    )
    allow_network: bool = switch("Let tests and candidates use the network; without isolation they can.")
    allow_write: tuple[str, ...] = setting(
        (),
        "File or folder outside the slot that tests and candidates may write to; may be repeated.",
        metavar="PATH",
    )
    file_size_limit: int = setting(1024, "Largest file that a check may write, in MiB; 0: no limit.")
    open_files_limit: int = setting(4096, "Descriptors that a process of a check may hold; 0: no limit.")
    processes_limit: int = setting(
        512,
        "Processes and threads of one check, at isolation sandbox and not for root; 0: no limit.",
    )
    disk_limit: int = setting(
        1024,
        "MiB of temporary files that one check may hold, at isolation sandbox, where they are in memory.",
        minimum=1,
    )
    timeout: float = setting(
        10.0, "Seconds added to 5 times the baseline's CPU time as a check's CPU deadline.", minimum=0.1
    )
    memory_limit: int = setting(0, "Memory limit of one check in MiB; 0: a fair share of what is available.")
    new_process: bool = switch("Judge every candidate in a new process; no warm servers.")
    no_select: bool = switch("Screen with all tests, not only with those that can notice a change.")
    time_budget: float = setting(
        0.0,
        "Wall seconds that a race may take at most, its confirmation included; 0: those of 60 passes "
        "over the workload on the baseline, each in a new process; up to a minute 200; 45 at least.",
        group=RACE,
    )
    confidence: float = setting(0.99, "Confidence of the claim that a winner is faster.", group=RACE)
    campaign: str = setting(
        "",
        "Campaign that the run belongs to, a name: all its runs share one error budget, so that a long loop "
        "of keep or discard keeps nothing that is not faster.",
        metavar="NAME",
        group=RACE,
        why_not=_why_not_name,
    )
    count_repeats: bool = switch(
        "Credit what is gained on inputs seen before, by a memo for example, and not on new ones.", group=RACE
    )
    min_speedup: float = setting(0.01, "Smallest speedup worth claiming, as a fraction.", group=RACE)
    indifference: float = setting(
        0.02, "Candidates closer than this fraction count as equally fast.", group=RACE
    )
    max_regression: float = setting(
        0.05, "Largest slowdown of one group of tests that a winner may bring.", group=RACE
    )
    max_cpu_cost: float = setting(
        1.2,
        "CPU time that a winner by the wall clock may use, as a multiple of the baseline's.",
        minimum=1,
        group=RACE,
    )
    ranking: str = setting(
        RankingMode.FASTEST.value,
        "Order of equally good candidates: fastest, smallest-diff, or a callable of your own, "
        "module:name or path.py:name.",
        metavar="ORDER",
        group=RACE,
        why_not=_why_not_ranking,
    )
    benchmark: str = setting(
        "",
        "What is timed instead of the tests' calls: a callable without arguments, path.py::name.",
        metavar="PATH::NAME",
        group=RACE,
        why_not=_why_not_place,
    )
    benchmark_command: str = setting(
        "",
        "What is timed instead of the tests' calls: a command, run in the slot's copy of the project.",
        metavar="COMMAND",
        group=RACE,
    )
    repairs_per_candidate: int = setting(1, "Repair requests for one failing candidate and its descendants.")
    repairs_per_run: int = setting(10, "Repair requests in a whole run.")
    enough_correct: int = setting(0, "No more repairs once this many candidates are right; 0: no cut-off.")
    refine_top: int = setting(2, "How many of the fastest candidates are refined.", group=RACE)
    refine_depth: int = setting(2, "Generations of refinement.", group=RACE)
    provider_timeout: float = setting(
        120.0, "Seconds that one repair or refinement request may take.", minimum=0.1, group=CONDITIONS
    )
    repair_command: str = setting(
        "", "Command that answers repair requests: JSON on stdin, JSON on stdout.", metavar="COMMAND"
    )
    refine_command: str = setting(
        "",
        "Command that answers refinement requests: JSON on stdin, JSON on stdout.",
        metavar="COMMAND",
        group=RACE,
    )
    stop_after: int = setting(0, "Judge no more candidates once this many are right; 0: judge all.")
    max_candidates: int = setting(0, "Candidates judged at most, derived ones included; 0: no limit.")
    wall_budget: float = setting(
        0.0, "Wall seconds of the whole run; what is unfinished then is cancelled; 0: none.", group=CONDITIONS
    )
    seed: int = setting(0, "Seed of everything random; 0: drawn from the run's id.", maximum=math.inf)
    keep_slots: bool = switch("Keep the slots of failing candidates for a look.", group=CONDITIONS)
    cache_dir: str = setting(
        "",
        "Where mirrors, slots and results are kept; empty: the user's cache directory.",
        metavar="DIR",
        group=PLACE,
    )
    executor: str = setting(
        Executor.LOCAL.value,
        "Who evaluates: local, this process; queue, the daemon of the evaluation queue; ray, the nodes of a "
        "Ray cluster; slurm, jobs of Slurm.",
        choices=Executor,
        group=PLACE,
    )
    cluster: str = setting(
        "",
        "Where the engine of --executor ray or slurm is. Ray: its address; empty: the cluster of this "
        "machine. Slurm: options of sbatch, such as 'partition=short time=60'; local: processes of this "
        "machine in their place.",
        metavar="ADDRESS|OPTIONS",
        group=PLACE,
    )
    cluster_jobs: int = setting(
        16, "Jobs that --executor slurm has in the engine's queue at once.", minimum=1, group=PLACE
    )
    prepare: str = setting(
        "",
        "Command that --executor ray or slurm runs on each host, in a checkout of the snapshot and once for "
        "each, to make the environment in which tests run: .venv in the project's folder.",
        metavar="COMMAND",
        group=PLACE,
    )
    keep_warm: bool = switch(
        "Keep warm processes for the next call: commands are run by a background process, which ends "
        "itself after 10 minutes without one; the library keeps them in its own process.",
        group=PLACE,
    )
    queue_dir: str = setting(
        "", "Where the evaluation queue is kept; empty: the folder queue of the cache directory.", group=PLACE
    )

    def __post_init__(self) -> None:
        check_values(self, SETTINGS)
        if not _EVEN_ODDS < self.confidence < 1:
            raise bad_setting(f"confidence must lie between 0.5 and 1, not {self.confidence}.")
        if 0 < self.memory_limit < _LEAST_MEMORY_MIB:
            raise bad_setting(
                f"memory_limit must be 0 or at least {_LEAST_MEMORY_MIB} MiB, not {self.memory_limit}."
            )
        if self.benchmark and self.benchmark_command:
            raise bad_setting("benchmark and benchmark_command cannot both be given: give one of them.")
        if self.accept and self.compare == ComparisonMode.PASS_FAIL:
            raise bad_setting("accept judges values, and compare is pass-fail: give one of them.")


#: A confidence below even odds claims nothing.
_EVEN_ODDS = 0.5
#: With less, an interpreter fails at whatever it imports first, and rarely says why.
_LEAST_MEMORY_MIB = 16

#: The table: all columns of every setting.
SETTINGS: dict[str, SettingColumns] = columns_of(Settings, PREFIX)

#: Settings that say on which hosts candidates are evaluated.
HOSTS = ("executor", "cluster", "cluster_jobs", "prepare")
#: Settings that change no verdict: a resumed run may have others.
FREE = tuple(name for name, columns in SETTINGS.items() if not columns.group.changes_verdict)


def settings_document(settings: Settings) -> dict[str, Any]:
    """Return settings as JSON values that mean the same from any folder."""
    # The reader has a place of its own.
    plain = {
        name: row.default if row.group == SettingGroup.PLACE else getattr(settings, name)
        for name, row in SETTINGS.items()
    }
    if settings.extra_tests:
        plain["extra_tests"] = str(Path(settings.extra_tests).resolve())
    if "/" in settings.python:
        plain["python"] = str(Path(settings.python).expanduser().absolute())
    place, colon, name = settings.ranking.rpartition(":")
    if place.endswith(".py"):
        plain["ranking"] = f"{Path(place).absolute()}{colon}{name}"
    return {name: list(v) if isinstance(v, tuple) else v for name, v in plain.items()}


def changed_settings(document: Mapping[str, Any], settings: Settings) -> list[str]:
    """Return the names of settings that differ from those of a document and may lead to other verdicts."""
    mine = settings_document(settings)
    return [name for name in SETTINGS if name not in FREE and mine[name] != document.get(name)]


def settings_of(document: Mapping[str, Any], **changed: Any) -> Settings:
    """Return the settings that `settings_document` wrote, some of them changed.

    Raises:
        EnvironmentFault: `BAD_JOURNAL`: they are none of this version.
    """
    try:
        plain = {name: SETTINGS[name].kind.made(value) for name, value in document.items()}
        return Settings(**{**plain, **changed})
    except (KeyError, ValueError, TypeError) as error:
        message = f"The settings of the run are none of version {__version__}: {error}."
        raise EnvironmentFault("BAD_JOURNAL", message, "Resume it with the version that began it.") from error
