"""Code that the user names: the work of an arm (a callable without arguments, or a command), and a judge.

The judge, `accept(arguments, expected, actual)`, is asked about results in a process of the baseline. Its
arguments are unpickled from what the baseline's own run has captured; both results are rebuilt from their
plain form (`plain_json`), new ones for each question. Nothing of a candidate is unpickled or imported.
"""

import hashlib
import inspect
import json
import os
import sys
import time
import types

from .bench import call_workload
from .channels import line_of
from .imports import import_guard, source_loader
from .process.call_limits import CallTimeout, awaited
from .replay.replay_session import seed_everything
from .replay.target_functions import LazyResolver, Targets
from .session import RunnerFailure, located
from .values import call_files
from .values.plain_json import NoPlainForm, rebuilt
from .values.type_handlers import MAX_ITEMS

#: Name of the module that holds the user's callable; a candidate's module of the same name is not meant.
_MODULE = "codeflash_benchmark"


class CallableWork:
    """A group for each callable of the user's, from the snapshot's text of its file.

    Args:
        spec: the runner's; `callables` have `path` (relative to the root), `name` and `source` each.
    """

    skipped = {}  # noqa: RUF012 - nothing is left out, of any of them

    def __init__(self, spec):
        if os.path.exists(spec.get("inputs", "")):
            call_files.install_places(spec)
        self._seed = spec.get("seed", 0)
        self._compare = spec.get("compare", call_workload.VALUES)
        self._settler = LazyResolver()
        self._functions = [
            load_callable(dict(spec, callable=given), "benchmark", "%s%s" % (_MODULE, number or ""))
            for number, given in enumerate(spec["callables"])
        ]
        self.sizes = (1,) * len(self._functions)

    def prepare(self, group, calls, start):  # noqa: ARG002 - each group has one input
        """Return a batch of so many calls."""
        function = self._functions[group]
        entries, waits = [(function, (), {}, MAX_ITEMS)] * calls, _is_async(function)
        if waits:
            self._settler.open_loop()
        seed_everything(self._seed)
        batch = call_workload.batch_of(
            entries, 1, (calls,), self._settler, waits=waits, compare=self._compare
        )
        batch.says_errors = True
        return batch

    def close(self):
        """Let go of the event loop."""
        self._settler.close()


def load_callable(spec, where, module_name):
    """Return a callable that the user names, from the snapshot's text of its file: `spec["callable"]`.

    Args:
        where: which part of the runner has failed where that fails.
        module_name: of the module that holds it.

    Raises:
        RunnerFailure: the text raises, or holds no such callable.
    """
    given = spec["callable"]
    file = os.path.join(spec["root"], given["path"])
    # As an interpreter does that is given a script.
    sys.path.insert(0, os.path.dirname(file))
    module = sys.modules[module_name] = types.ModuleType(module_name)
    module.__file__ = file
    try:
        exec(compile(given["source"], file, "exec", dont_inherit=True), vars(module))
    except BaseException as error:
        message = "%s cannot be imported (%s: %s)" % (given["path"], type(error).__name__, error)
        raise RunnerFailure(where, message) from error
    found = getattr(module, given["name"], None)
    if not callable(found):
        raise RunnerFailure(where, "%s::%s is no callable" % (given["path"], given["name"]))
    return found


def _is_async(function):
    """Return whether a callable gives something to be awaited."""
    call = function if inspect.isroutine(function) else type(function).__call__
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


class CommandWork:
    """One group: a command of the user's, each time in a new process.

    Args:
        spec: the runner's; `command` is a list of words.
    """

    skipped = {}  # noqa: RUF012 - nothing is left out, of any of them
    sizes = (1,)

    def __init__(self, spec):
        self._compare = spec.get("compare", call_workload.VALUES)
        first, *others = spec["command"]
        program, self._environment = located(first)
        self._argv = [program or first, *others]

    def prepare(self, group, calls, start):  # noqa: ARG002 - there is one group with one input
        """Return a batch of so many runs."""
        return CommandBatch(self._argv, self._environment, calls, self._compare)

    def close(self):
        """Do nothing: every run has ended."""


class CommandBatch:
    """Some runs of a command, one after the other.

    Attributes:
        spent_ns: CPU time of the runs and of the processes that they waited for, as `wait4` has it.
        queued_ns: how long the runs themselves waited for a core.
    """

    def __init__(self, argv, environment, times, compare=call_workload.VALUES):
        self._argv, self._environment, self._times = argv, environment, times
        self._compare = compare
        # Files in memory: writing to them never blocks, and they are read after the clock.
        self._output = os.memfd_create("stdout") if times else -1
        self._errors = os.memfd_create("stderr") if times else -1
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._statuses = []
        self.spent_ns = self.queued_ns = 0

    def run(self):
        """Run the command: this is what is timed."""
        actions = [
            (os.POSIX_SPAWN_DUP2, self._nothing, 0),
            (os.POSIX_SPAWN_DUP2, self._output, 1),
            (os.POSIX_SPAWN_DUP2, self._errors, 2),
        ]
        for _ in range(self._times):
            # The last run's output is the one that is compared, together with every run's status.
            os.ftruncate(self._output, 0)
            os.lseek(self._output, 0, os.SEEK_SET)
            self._statuses.append(self._run_once(actions))

    def _run_once(self, actions):
        try:
            pid = os.posix_spawn(self._argv[0], self._argv, self._environment, file_actions=actions)
        except OSError as error:
            os.write(self._errors, str(error).encode())
            return 127  # a shell's status of a command that it does not find
        # A dead process keeps its accounts until it is reaped; only they have how long it waited for a core.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self.queued_ns += _queued_ns(pid)
        _, status, usage = os.wait4(pid, 0)
        self.spent_ns += int((usage.ru_utime + usage.ru_stime) * 1e9)
        return os.waitstatus_to_exitcode(status)

    def check(self):
        """Return a digest of the exit statuses and, where values are compared, of the last run's output."""
        started = time.process_time_ns()
        digest = hashlib.sha256(repr(sorted(set(self._statuses))).encode())
        if self._statuses and self._compare == call_workload.VALUES:
            digest.update(_read(self._output))
        failed = [status for status in self._statuses if status]
        checked = {"digest": digest.hexdigest(), "raised": bool(failed), "inputs": min(self._times, 1)}
        if failed:
            checked["said"] = self._why(failed[0])
        self._close()
        return dict(checked, ns=time.process_time_ns() - started)

    def done(self):
        """Return what is said when the runs are done."""
        return line_of("done", children_ns=self.spent_ns, queued_ns=self.queued_ns)

    def _why(self, status):
        lines = _read(self._errors).decode("utf-8", "replace").strip().splitlines()
        return ("it ends with status %d: %s" % (status, lines[-1] if lines else ""))[
            : call_workload.SAID_CHARS
        ]

    def _close(self):
        for descriptor in (self._output, self._errors, self._nothing):
            if descriptor >= 0:
                os.close(descriptor)


def _queued_ns(pid):
    try:
        with open("/proc/%d/schedstat" % pid) as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0  # the kernel does not say


def _read(descriptor):
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


# ---- the judge

#: Name of the module that holds the judge.
_JUDGE_MODULE = "codeflash_judge"
#: Seconds that one answer may take.
ANSWER_S = 10.0
_SLOW = "the judge gives no answer within %d s" % ANSWER_S
#: After so many answers that did not come the others are not asked for.
_MOST_SLOW = 2


def run(spec, channel):
    """Write an "accepted" record for each case: why not, empty where it is.

    Args:
        spec: `cases` are (number, file of the inputs, number of the call there, expected, actual) with both
            results as JSON texts; an empty `actual` stands for the expected one.

    Raises:
        RunnerFailure: there is no such judge.
    """
    proof = import_guard.install(spec, channel).proof
    call_files.install_places(spec)
    calls = _calls(spec)
    proof.instrument = source_loader.registering(spec, [*calls.values()])
    targets = Targets(spec, source_loader.REGISTRY)
    judge = load_callable(spec, "accept", _JUDGE_MODULE)
    slow = 0
    for number, file, index, expected, actual in spec["cases"]:
        why = _why_not(judge, targets, calls[file, index], expected, actual or expected)
        channel.write("accepted", i=number, why=why)
        slow += why == _SLOW
        if slow >= _MOST_SLOW:
            break  # what hangs need not hang hundreds of times


def _calls(spec):
    wanted = {}
    for _, file, index, *_ in spec["cases"]:
        wanted.setdefault(file, set()).add(index)
    return {
        (file, call.meta["i"]): call
        for file, indexes in wanted.items()
        for call in call_files.read_calls(spec[file], indexes)
    }


def _why_not(judge, targets, call, expected, actual):
    """Return why a result is not accepted; empty: it is."""
    try:
        # The function first: it imports the classes that results are made of.
        arguments = bound(targets.function(call.meta), *call_files.load(call))
    except BaseException as error:
        return _raised("the arguments cannot be made", error)
    try:
        with awaited(ANSWER_S):
            answer = judge(arguments, *[rebuilt(json.loads(text)) for text in (expected, actual)])
    except NoPlainForm as error:
        return "it holds %s, which cannot be rebuilt in the judge's process" % error
    except CallTimeout:
        return _SLOW
    except BaseException as error:
        return _raised("the judge raises", error)
    return _verdict(answer)


def bound(function, args, kwargs):
    """Return arguments by the names of the parameters, defaults included."""
    found = inspect.signature(function).bind(*args, **kwargs)
    found.apply_defaults()
    return dict(found.arguments)


def _raised(what, error):
    return ("%s (%s: %s)" % (what, type(error).__name__, error))[: call_workload.SAID_CHARS]


def _verdict(answer):
    if type(answer) is not bool and type(answer).__name__ not in ("bool", "bool_"):
        return "the judge returns %s, no bool" % type(answer).__name__
    return "" if answer else "the judge returns False"
