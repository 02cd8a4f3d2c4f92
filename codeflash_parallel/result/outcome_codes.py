"""The closed vocabularies of a result: verdicts, statuses and codes.

Machinery and tests are two axes. `ExitKind` says how the *process* fared; `Code` says what is
true of the *candidate*. A machinery fault never rejects a candidate.
"""

from __future__ import annotations

from enum import Flag, StrEnum, auto
from typing import Self


class Verdict(StrEnum):
    """Verdict of a run."""

    #: One candidate is measurably the fastest.
    WINNER = "winner"
    #: Several are faster than the baseline and cannot be told apart.
    TIE = "tie"
    #: Correct candidates exist, none is measurably faster than the baseline.
    NOTHING_FASTER = "nothing_faster"
    #: Correct candidates exist; no race was asked for (`check`).
    CHECKED = "checked"
    #: No candidate is equivalent to the baseline.
    NONE_CORRECT = "none_correct"
    #: The race's budget was spent before it could say anything; the figure that would do is in the summary.
    BUDGET_TOO_SMALL = "budget_too_small"
    #: The machine could not measure well enough to say anything.
    TOO_NOISY = "too_noisy"
    #: Something is faster, but a guard doubts how.
    SUSPECT = "suspect"


class CandidateStatus(StrEnum):
    """Final status of a candidate."""

    #: The winner.
    WON = "won"
    #: One of a tie set.
    TIED = "tied"
    #: Correct and timed, and not the winner; `code` says why, `speedup` how fast it is.
    LOST = "lost"
    #: Correct, and there is no figure: no race was held, or it could not be timed.
    UNDECIDED = "undecided"
    #: Not equivalent to the baseline; `code` says how.
    REJECTED = "rejected"
    #: The edit does not apply, or what it makes does not parse.
    UNAPPLIABLE = "unappliable"
    #: Equal to the baseline or to another candidate.
    DUPLICATE = "duplicate"
    #: The run ended before it was judged.
    CANCELLED = "cancelled"
    #: The machinery failed, not the candidate.
    INFRA = "infra"

    @property
    def is_best(self) -> bool:
        """True if the candidate won or tied."""
        return self in {CandidateStatus.WON, CandidateStatus.TIED}

    @property
    def is_equivalent(self) -> bool:
        """True if the candidate is known to be equivalent to the baseline."""
        return self.is_best or self in {CandidateStatus.LOST, CandidateStatus.UNDECIDED}


class Trait(Flag):
    """Properties of a code; all rules about codes use them."""

    #: It says something about the machine, and nothing about the candidate: tried again, never stored.
    INFRA = auto()
    #: Fewer checks at once may mend it: there was too little of something.
    CROWDED = auto()
    #: The race could not say how fast the candidate is.
    UNMEASURED = auto()
    #: The candidate's own appetite reached a limit: no fork can be to blame.
    LIMIT = auto()
    #: A process may end so in a call that does not decide.
    ENDS_PROCESS = auto()
    #: A shortage of disk or memory may be behind it.
    SHORTAGE = auto()
    #: Where code came from, or the test runner, is at fault: the unchanged code may have the same fault.
    PROVENANCE = auto()
    #: Tests decided: further ones may be shown.
    BY_TESTS = auto()
    #: A result differs so that the user's judge is asked.
    JUDGED = auto()
    #: A smaller input may show the same difference.
    SHRINKABLE = auto()


_NO_TRAIT = Trait(0)


class Code(StrEnum):
    """Why; a stable name that a program can match on. Within a major schema version only added to.

    A new code is one entry here: what else there is to know about it stands beside its name. Of two calls
    that differ the one whose code comes first is the graver one.

    Attributes:
        traits: what holds for it.
        call_words: what a call does that differs so.
    """

    traits: Trait
    call_words: str

    def __new__(cls, name: str, traits: Trait = _NO_TRAIT, call_words: str = "") -> Self:
        """Make a code that is its name and knows its properties."""
        code = str.__new__(cls, name)
        code._value_, code.traits, code.call_words = name, traits, call_words
        return code

    #: Nothing to say: the candidate won, tied, or is equivalent.
    OK = "OK"
    #: At least one test that passes on the baseline fails (an import error counts as that).
    TESTS_FAILED = "TESTS_FAILED", Trait.SHORTAGE | Trait.BY_TESTS
    #: At least one test of the baseline was not collected or did not run.
    TESTS_MISSING = "TESTS_MISSING", Trait.SHORTAGE | Trait.BY_TESTS
    #: A captured call gives another value or another exception.
    VALUE_DIFFERS = "VALUE_DIFFERS", Trait.SHORTAGE | Trait.JUDGED | Trait.SHRINKABLE, "gives another value"
    #: The user's judge (`--accept`) does not accept what a call gives.
    NOT_ACCEPTED = "NOT_ACCEPTED", Trait.SHORTAGE
    #: So much slower that its check was stopped: it needed many times the baseline's CPU time.
    TOO_SLOW = "TOO_SLOW", Trait.LIMIT | Trait.ENDS_PROCESS, "gives nothing within a second of CPU time"
    #: A captured call gives an equal-looking value of another type.
    TYPE_DIFFERS = (
        "TYPE_DIFFERS",
        Trait.SHORTAGE | Trait.JUDGED | Trait.SHRINKABLE,
        "gives an equal value of another type",
    )
    #: The arguments are not what they are after a call of the baseline.
    INPUT_MUTATED = (
        "INPUT_MUTATED",
        Trait.SHRINKABLE,
        "leaves its arguments (or their identity with the result) in another state",
    )
    #: What calls leave behind differs: output, globals, objects shared with earlier results.
    STATE_DIFFERS = "STATE_DIFFERS"
    #: The values differ in floats only.
    FLOAT_DIFFERS = "FLOAT_DIFFERS", Trait.JUDGED, "gives other floats"
    #: Outcomes differ only for derived inputs that are unlike all observed ones, or by rounding (`--strict`).
    DIFFERS_OUTSIDE_OBSERVED = "DIFFERS_OUTSIDE_OBSERVED"
    #: The code that ran was not the candidate's.
    WRONG_SOURCE = "WRONG_SOURCE", Trait.SHORTAGE | Trait.PROVENANCE
    #: The candidate touches a file that it may not touch.
    PATH_NOT_ALLOWED = "PATH_NOT_ALLOWED"
    #: The wall deadline was reached twice, the second time alone, with CPU time left: it waits.
    TIMEOUT = "TIMEOUT", Trait.LIMIT | Trait.ENDS_PROCESS
    #: A limit of CPU time that the user has set was reached (`SIGXCPU`).
    CPU_LIMIT = "CPU_LIMIT", Trait.LIMIT | Trait.ENDS_PROCESS
    #: The memory limit was reached.
    OUT_OF_MEMORY = "OUT_OF_MEMORY", Trait.LIMIT | Trait.ENDS_PROCESS
    #: The limit of a file's size or of the slot's disk was reached, while the machine had room.
    DISK_LIMIT = "DISK_LIMIT", Trait.LIMIT
    #: The interpreter died (a signal, or an exit without an end record).
    CRASHED = "CRASHED", Trait.ENDS_PROCESS | Trait.SHORTAGE
    #: The test runner cannot be believed: a test that must fail did not, or records or status are forged.
    RUNNER_TAMPERED = "RUNNER_TAMPERED", Trait.PROVENANCE
    #: Processes outlived the tests, which those of the baseline do not.
    LEAKED_PROCESS = "LEAKED_PROCESS"
    #: Files were changed that are none of its own: of the snapshot, of the mirror; or active ones were added.
    ESCAPED = "ESCAPED"
    #: A hunk, path or name did not match.
    DOES_NOT_APPLY = "DOES_NOT_APPLY"
    #: The result is not Python.
    DOES_NOT_PARSE = "DOES_NOT_PARSE"
    #: Same normalised syntax tree as the baseline or an earlier candidate.
    SAME_CODE = "SAME_CODE"
    #: Correct, but not measurably faster than the baseline.
    NOT_FASTER = "NOT_FASTER"
    #: Correct and faster, but another is faster still.
    BEATEN = "BEATEN"
    #: Faster in total, but one group of tests became slower than allowed.
    REGRESSES_TEST = "REGRESSES_TEST"
    #: Faster on the inputs of the tests, and not on others of the same shape: a memo, or a table of answers.
    GAIN_ONLY_ON_SEEN_INPUTS = "GAIN_ONLY_ON_SEEN_INPUTS"
    #: Correct; the race could not show whether it is faster.
    TOO_NOISY = "TOO_NOISY", Trait.UNMEASURED
    #: Correct; the race's budget was spent before it could decide, and its reason says which would do.
    BUDGET_TOO_SMALL = "BUDGET_TOO_SMALL", Trait.UNMEASURED
    #: Correct; no race was asked for (`check`).
    NOT_RACED = "NOT_RACED"
    #: Correct; the race was not held, because other races had the machine for too long.
    RACE_NOT_HELD = "RACE_NOT_HELD"
    #: Faster in the race, but wrong or different in a timed unit, or not confirmed.
    NOT_CONFIRMED = "NOT_CONFIRMED"
    #: Faster, but a guard doubts how (a cache, say): not credited.
    SUSPECT = "SUSPECT"
    #: Equivalent when it was screened, and not in a clean process with all tests that were asked for.
    DIFFERS_IN_CLEAN_PROCESS = "DIFFERS_IN_CLEAN_PROCESS"
    #: The run was interrupted or its budget was spent.
    CANCELLED = "CANCELLED"
    #: The slot or our own process failed; tried again without success.
    INFRA_SLOT = "INFRA_SLOT", Trait.INFRA | Trait.UNMEASURED | Trait.SHORTAGE
    #: No space on the device that holds the slots, which the candidate did not take.
    INFRA_DISK = "INFRA_DISK", Trait.INFRA | Trait.UNMEASURED | Trait.CROWDED
    #: The machine has no memory left: the kernel killed the process for it, or refused it some.
    INFRA_MEMORY = "INFRA_MEMORY", Trait.INFRA | Trait.UNMEASURED | Trait.CROWDED
    #: The process was killed by a signal that neither we nor a limit sent.
    INFRA_KILLED = "INFRA_KILLED", Trait.INFRA | Trait.UNMEASURED | Trait.CROWDED
    #: Hosts or their workers have died while it was checked there, the last time with nothing else to check.
    INFRA_LOST = "INFRA_LOST", Trait.INFRA | Trait.UNMEASURED
    #: Two hosts have judged it in different ways.
    HOSTS_DISAGREE = "HOSTS_DISAGREE", Trait.INFRA | Trait.UNMEASURED


class ExitKind(StrEnum):
    """Ends of a child process as the launcher saw it: the machinery axis."""

    #: It exited by itself; see the exit status.
    EXITED = "exited"
    #: A signal that we did not send ended it.
    SIGNALLED = "signalled"
    #: Its CPU deadline was reached.
    CPU_DEADLINE = "cpu_deadline"
    #: Its wall deadline was reached while CPU was left.
    WALL_DEADLINE = "wall_deadline"
    #: Its memory limit was reached.
    MEMORY_LIMIT = "memory_limit"
    #: The kernel killed it because the machine, or a control group around us, had no memory left.
    OOM_KILLED = "oom_killed"
    #: We killed it: cancelled, or no longer needed.
    KILLED = "killed"
    #: It could not be started.
    NOT_STARTED = "not_started"


class Level(StrEnum):
    """Depth of the equivalence check."""

    #: Nothing was compared.
    NONE = "none"
    #: Test ids and outcomes only.
    TESTS = "tests"
    #: Values of calls captured from the tests as well.
    CAPTURED = "captured"
    #: Values of calls derived from the captured ones as well.
    DERIVED = "derived"
    #: The same, and other results than the baseline's were accepted by the user's judge (`--accept`).
    ACCEPTED = "accepted"


class FlagKind(StrEnum):
    """Possible misuse of a construct that a candidate adds. Within a major version only added to."""

    #: It looks into the code that calls it (frames, `inspect.stack`, code objects of others).
    FRAMES = "frames"
    #: It finds or changes objects that it was not given (`gc`).
    OBJECTS = "objects"
    #: It leaves Python (`ctypes`, `mmap`).
    NATIVE = "native"
    #: It ends or signals processes, or leaves by another way than a return.
    EXIT = "exit"
    #: It acts when the process ends or an object dies (`atexit`, `__del__`).
    LATE = "late"
    #: It traces or hooks the interpreter (`sys.settrace`, audit hooks, switch interval).
    TRACING = "tracing"
    #: It changes what others import: attributes of modules, builtins, `sys.modules`, import hooks.
    PATCHING = "patching"
    #: It reads or changes the environment, or asks how it was started.
    ENVIRONMENT = "environment"
    #: It reads a clock, or sleeps.
    CLOCK = "clock"
    #: It hands work to threads or processes.
    CONCURRENCY = "concurrency"
    #: It writes, removes or shares files.
    FILES = "files"
    #: It speaks to the network.
    NETWORK = "network"
    #: It makes objects that pickle, compare or name their type in ways of their own.
    DISGUISE = "disguise"
    #: It runs code that is made as text.
    DYNAMIC = "dynamic"
    #: It speaks to the test runner.
    RUNNER = "runner"
    #: It was not looked at: it cannot be parsed here, or is too large.
    UNREAD = "unread"
