"""Every setting, with its default, its unit and its help text.

The command line, the environment, `pyproject.toml` and the reference page are all made from this table: a
new setting is one entry of `Settings`, and its use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from codeflash_parallel.result.errors import UsageError


class ComparisonMode(StrEnum):
    """What "equivalent" is judged on."""

    #: Test outcomes and the values of captured calls.
    VALUES = "values"
    #: Test outcomes only.
    PASS_FAIL = "pass-fail"  # noqa: S105 - not a password


class InputDepth(StrEnum):
    """How many fresh inputs each candidate is compared on."""

    #: As many as cost little beside the tests.
    QUICK = "quick"
    #: Those that take the baseline a second, raced or not.
    FULL = "full"


class Executor(StrEnum):
    """Where candidates are evaluated."""

    #: In this process.
    LOCAL = "local"
    #: By the daemon of the evaluation queue, in turn with what others have submitted.
    QUEUE = "queue"


class RankingMode(StrEnum):
    """How candidates are ordered that the race cannot tell apart."""

    #: By their estimated speed; among equals the smallest diff is named the winner.
    FASTEST = "fastest"
    #: By the size of their diffs.
    SMALLEST_DIFF = "smallest-diff"


#: `auto` or a positive number of slots.
Parallel = int | Literal["auto"]

#: The highest isolation level that works.
AUTO = "auto"

#: Files that git ignores and tests may need all the same; matched on the base name and on the whole path.
INCLUDE_IGNORED = ("*.so", "*.pyd", "*.py", ".env", "*.egg-info/*", "*.dist-info/*")


#: More than any machine has, and what the kernel's counters can hold, also in bytes.
_HIGHEST_LIMIT = 1 << 40


class SettingGroup(StrEnum):
    """What a setting is about."""

    #: Every evaluation.
    RUN = "run"
    #: The race; nothing asks it where nobody races.
    RACE = "race"
    #: How much is done at once, for how long, and what is left: whoever goes on with a run may change it.
    CONDITIONS = "conditions"
    #: Where things lie, and who evaluates: no job brings it along.
    PLACE = "place"

    @property
    def changes_verdict(self) -> bool:
        """Whether a run that goes on must leave its settings as they were."""
        return self in {SettingGroup.RUN, SettingGroup.RACE}


class SettingColumns(NamedTuple):
    """What the table says of a setting besides its name, type and default.

    Attributes:
        help: one sentence or two, with the unit.
        flag, variable: how it is spelled on the command line and in the environment, where that is not the
            name; `short` is a second spelling.
        metavar: what stands for the value in help texts, where the kind does not say enough.
        takes_several: its option takes several values at once.
        minimum, maximum: bounds of a number.
        choices: the words that it may be.
        group: what it is about, and whether it changes a verdict.
    """

    help: str
    flag: str = ""
    short: str = ""
    variable: str = ""
    metavar: str = ""
    takes_several: bool = False
    minimum: float = 0
    maximum: float = math.inf
    choices: type[StrEnum] | None = None
    group: SettingGroup = SettingGroup.RUN


def _setting(default: Any, help_text: str, **columns: Any) -> Any:
    """Declare one setting; the columns are those of `SettingColumns`."""
    metadata = SettingColumns(help_text, **columns)._asdict()
    if isinstance(default, list):
        return field(default_factory=lambda: tuple(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What a run may be told. Times in seconds, sizes in MiB: this is the border where people write them."""

    functions: tuple[str, ...] = _setting(
        [],
        "Target function, path.py::Class.method; may be repeated.",
        flag="--function",
        metavar="PATH::NAME",
    )
    parallel_candidates: Parallel = _setting(
        "auto",
        "How many candidates are evaluated at once; auto: as many as cores and memory bear.",
        short="-j",
        variable="CANDIDATES",
        metavar="N|auto",
        minimum=1,
        group=SettingGroup.CONDITIONS,
    )
    base: str = _setting(
        "", "Git ref to start from; empty: the tree as it is, uncommitted work included.", metavar="REF"
    )
    tests: tuple[str, ...] = _setting(
        [],
        "Test files, folders or ids; empty: what the project's configuration says.",
        metavar="PATH",
        takes_several=True,
    )
    keyword: str = _setting(
        "", "Only tests that match this pytest -k expression.", flag="-k", metavar="EXPRESSION"
    )
    marker: str = _setting(
        "", "Only tests that match this pytest -m expression.", flag="-m", metavar="EXPRESSION"
    )
    extra_tests: str = _setting(
        "", "Folder of tests overlaid into every slot, absent from your tree.", metavar="DIR"
    )
    python: str = _setting(
        "",
        "Interpreter that runs the tests; empty: .venv of the repository, else the current one.",
        metavar="PATH",
    )
    compare: ComparisonMode = _setting(
        ComparisonMode.VALUES,
        "What is compared: test outcomes and values, or outcomes only.",
        choices=ComparisonMode,
    )
    strict: bool = _setting(
        default=False,
        help_text="Reject for hints, too: unlike inputs, rounding, side state, scratch arguments.",
    )
    rtol: float = _setting(
        0.0, "Largest difference of a float from the baseline's that is accepted, relative to it; 0: exact."
    )
    atol: float = _setting(
        0.0, "The same as an absolute number; both given: atol + rtol times the baseline's."
    )
    encoders: tuple[str, ...] = _setting(
        [],
        "Function that takes values of your own types apart so that they can be compared, path.py::name or "
        "module:name; may be repeated.",
        flag="--encoder",
        metavar="PATH::NAME|MODULE:NAME",
    )
    accept: str = _setting(
        "",
        "Your judge of results that differ, for functions with several right answers: "
        "accept(arguments, expected, actual) -> bool, path.py::name.",
        metavar="PATH::NAME",
    )
    depth: str = _setting(
        InputDepth.QUICK.value,
        "How many fresh inputs candidates are compared on: quick; or full, those that take the baseline a "
        "second, for each candidate two or three.",
        choices=InputDepth,
    )
    include_ignored: tuple[str, ...] = _setting(
        list(INCLUDE_IGNORED),
        "Patterns of git-ignored files that are part of the snapshot.",
        metavar="PATTERN",
        takes_several=True,
    )
    pass_env: tuple[str, ...] = _setting(
        [],
        "Variable of your environment that tests and candidates may see, NAME or a pattern with *; may be "
        "repeated. Without it they see those that tests commonly need, and no secrets.",
        metavar="NAME",
    )
    isolation: str = _setting(
        AUTO,
        "How far candidates are kept apart from the machine: none, landlock or sandbox; `doctor` shows which "
        "work here, and which one auto is.",
        metavar="auto|none|landlock|sandbox",
    )
    require_isolation: str = _setting(
        "",
        "Lowest isolation level that will do; a run that cannot have it ends with exit code 4.",
        metavar="LEVEL",
    )
    allow_network: bool = _setting(
        default=False, help_text="Let tests and candidates use the network; without isolation they can."
    )
    allow_write: tuple[str, ...] = _setting(
        [],
        "File or folder outside the slot that tests and candidates may write to; may be repeated.",
        metavar="PATH",
    )
    file_size_limit: int = _setting(
        1024, "Largest file that a check may write, in MiB; 0: no limit.", maximum=_HIGHEST_LIMIT
    )
    open_files_limit: int = _setting(
        4096, "Descriptors that a process of a check may hold; 0: no limit.", maximum=_HIGHEST_LIMIT
    )
    processes_limit: int = _setting(
        512,
        "Processes and threads of one check, at isolation sandbox and not for root; 0: no limit.",
        maximum=_HIGHEST_LIMIT,
    )
    disk_limit: int = _setting(
        1024,
        "MiB of temporary files that one check may hold, at isolation sandbox, where they are in memory.",
        minimum=1,
        maximum=_HIGHEST_LIMIT,
    )
    timeout: float = _setting(
        10.0, "Seconds added to 5 times the baseline's CPU time as a check's CPU deadline.", minimum=0.1
    )
    memory_limit: int = _setting(
        0, "Memory limit of one check in MiB; 0: a fair share of what is available.", maximum=_HIGHEST_LIMIT
    )
    new_process: bool = _setting(
        default=False, help_text="Judge every candidate in a new process; no warm servers."
    )
    no_select: bool = _setting(
        default=False, help_text="Screen with all tests, not only with those that can notice a change."
    )
    time_budget: float = _setting(
        0.0,
        "Wall seconds that a race may take at most, its confirmation included; 0: those of 60 passes "
        "over the workload on the baseline, each in a new process; up to a minute 200; 45 at least.",
        group=SettingGroup.RACE,
    )
    confidence: float = _setting(
        0.99, "Confidence of the claim that a winner is faster.", group=SettingGroup.RACE
    )
    count_repeats: bool = _setting(
        default=False,
        help_text="Credit what is gained on inputs seen before, by a memo for example, and not on new ones.",
        group=SettingGroup.RACE,
    )
    min_speedup: float = _setting(
        0.01, "Smallest speedup worth claiming, as a fraction.", group=SettingGroup.RACE
    )
    indifference: float = _setting(
        0.02, "Candidates closer than this fraction count as equally fast.", group=SettingGroup.RACE
    )
    max_regression: float = _setting(
        0.05, "Largest slowdown of one group of tests that a winner may bring.", group=SettingGroup.RACE
    )
    max_cpu_cost: float = _setting(
        1.2,
        "CPU time that a winner by the wall clock may use, as a multiple of the baseline's.",
        minimum=1,
        group=SettingGroup.RACE,
    )
    ranking: str = _setting(
        RankingMode.FASTEST.value,
        "Order of equally good candidates: fastest, smallest-diff, or a callable of your own, "
        "module:name or path.py:name.",
        metavar="ORDER",
        group=SettingGroup.RACE,
    )
    benchmark: str = _setting(
        "",
        "What is timed instead of the tests' calls: a callable without arguments, path.py::name.",
        metavar="PATH::NAME",
        group=SettingGroup.RACE,
    )
    benchmark_command: str = _setting(
        "",
        "What is timed instead of the tests' calls: a command, run in the slot's copy of the project.",
        metavar="COMMAND",
        group=SettingGroup.RACE,
    )
    repairs_per_candidate: int = _setting(1, "Repair requests for one failing candidate and its descendants.")
    repairs_per_run: int = _setting(10, "Repair requests in a whole run.")
    enough_correct: int = _setting(0, "No more repairs once this many candidates are right; 0: no cut-off.")
    refine_top: int = _setting(2, "How many of the fastest candidates are refined.", group=SettingGroup.RACE)
    refine_depth: int = _setting(2, "Generations of refinement.", group=SettingGroup.RACE)
    provider_timeout: float = _setting(
        120.0,
        "Seconds that one repair or refinement request may take.",
        minimum=0.1,
        group=SettingGroup.CONDITIONS,
    )
    repair_command: str = _setting(
        "", "Command that answers repair requests: JSON on stdin, JSON on stdout.", metavar="COMMAND"
    )
    refine_command: str = _setting(
        "",
        "Command that answers refinement requests: JSON on stdin, JSON on stdout.",
        metavar="COMMAND",
        group=SettingGroup.RACE,
    )
    stop_after: int = _setting(0, "Judge no more candidates once this many are right; 0: judge all.")
    max_candidates: int = _setting(0, "Candidates judged at most, derived ones included; 0: no limit.")
    wall_budget: float = _setting(
        0.0,
        "Wall seconds of the whole run; what is unfinished then is cancelled; 0: none.",
        group=SettingGroup.CONDITIONS,
    )
    seed: int = _setting(0, "Seed of everything random; 0: drawn from the run's id.")
    keep_slots: bool = _setting(
        default=False,
        help_text="Keep the slots of failing candidates for a look.",
        group=SettingGroup.CONDITIONS,
    )
    cache_dir: str = _setting(
        "",
        "Where mirrors, slots and results are kept; empty: the user's cache directory.",
        metavar="DIR",
        group=SettingGroup.PLACE,
    )
    executor: str = _setting(
        Executor.LOCAL.value,
        "Who evaluates: local, this process; queue, the daemon of the evaluation queue.",
        choices=Executor,
        group=SettingGroup.PLACE,
    )
    queue_dir: str = _setting(
        "",
        "Where the evaluation queue is kept; empty: the folder queue of the cache directory.",
        group=SettingGroup.PLACE,
    )

    def __post_init__(self) -> None:
        for name, columns in SETTINGS.items():
            _check_value(name, getattr(self, name), columns)
        if not _EVEN_ODDS < self.confidence < 1:
            raise _bad(f"confidence must lie between 0.5 and 1, not {self.confidence}.")
        if 0 < self.memory_limit < _LEAST_MEMORY_MIB:
            raise _bad(
                f"memory_limit must be 0 or at least {_LEAST_MEMORY_MIB} MiB, not {self.memory_limit}."
            )
        self._check_pass_env()
        self._check_isolation()
        self._check_benchmark()
        self._check_encoders()
        self._check_ranking()
        # A library call may give the plain text; code compares by identity.
        object.__setattr__(self, "compare", ComparisonMode(self.compare))

    def _check_pass_env(self) -> None:
        if not self.pass_env:
            return
        from codeflash_parallel.config.environment_allowlist import why_not_pattern

        for why in filter(None, map(why_not_pattern, self.pass_env)):
            raise _bad(f"pass_env {why}.")

    def _check_isolation(self) -> None:
        if (self.isolation, self.require_isolation) == (AUTO, ""):
            return  # and nothing to import: settings are made at every start
        from codeflash_parallel.result.isolation_policy import IsolationLevel

        for name, more in (("isolation", AUTO), ("require_isolation", "")):
            allowed = (more, *IsolationLevel)
            if getattr(self, name) not in allowed:
                words = ", ".join(filter(None, allowed))
                raise _bad(f"{name} must be one of {words}, not {getattr(self, name)}.")

    def _check_benchmark(self) -> None:
        for setting, place in (("benchmark", self.benchmark), ("accept", self.accept)):
            path, separator, name = place.partition("::")
            if place and not (path.endswith(".py") and separator and name.isidentifier()):
                raise _bad(f"{setting} must name a callable as path.py::name, not {place!r}.")
        if self.benchmark and self.benchmark_command:
            raise _bad("benchmark and benchmark_command cannot both be given: give one of them.")
        if self.accept and self.compare == ComparisonMode.PASS_FAIL:
            raise _bad("accept judges values, and compare is pass-fail: give one of them.")

    def _check_encoders(self) -> None:
        for encoder in self.encoders:
            path, _, name = encoder.rpartition("::" if "::" in encoder else ":")
            is_module = "::" not in encoder and all(part.isidentifier() for part in path.split("."))
            if not ((path.endswith(".py") or is_module) and name.isidentifier()):
                raise _bad(f"encoders must name functions as path.py::name or module:name, not {encoder!r}.")

    def _check_ranking(self) -> None:
        place, _, name = self.ranking.rpartition(":")
        if self.ranking not in list(RankingMode) and not (place and name.isidentifier()):
            raise _bad(f"ranking must be {', '.join(RankingMode)} or module:name, not {self.ranking!r}.")


def _check_value(name: str, value: Any, columns: SettingColumns) -> None:
    """Check what the table says of a value.

    Raises:
        UsageError: `BAD_SETTING`.
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(f"{name} must be a finite number, not {value}.")
    texts = value if isinstance(value, tuple) else (value,)
    if any("\0" in text for text in texts if isinstance(text, str)):
        raise _bad(f"{name} must not contain the character NUL.")  # no path or argument can
    if isinstance(value, int | float) and value < columns.minimum:
        raise _bad(f"{name} must be at least {columns.minimum}, not {value}.")
    if isinstance(value, int | float) and value > columns.maximum:
        raise _bad(f"{name} must be at most {columns.maximum}, not {value}.")
    if columns.choices is not None and value not in list(columns.choices):
        raise _bad(f"{name} must be {' or '.join(columns.choices)}, not {value!r}.")


def _bad(message: str) -> UsageError:
    short = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
    return UsageError("BAD_SETTING", short)


#: Characters of what is said of a value, which may be a whole file's text.
_LONGEST_MESSAGE = 300
#: A confidence below even odds claims nothing.
_EVEN_ODDS = 0.5
#: With less, an interpreter fails at whatever it imports first, and rarely says why.
_LEAST_MEMORY_MIB = 16

#: The table: all columns of every setting.
SETTINGS: dict[str, SettingColumns] = {f.name: SettingColumns(**f.metadata) for f in fields(Settings)}

#: Names of all settings, in the order of the table.
SETTING_NAMES: tuple[str, ...] = tuple(SETTINGS)
