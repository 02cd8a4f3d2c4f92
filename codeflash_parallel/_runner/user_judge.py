"""Ask the user's judge about results, `accept(arguments, expected, actual)`, in a process of the baseline.

Arguments are unpickled from what the baseline's own run has captured; both results are rebuilt from their
plain form (`plain`), new ones for each question. Nothing that a candidate wrote is unpickled or imported.
"""

import inspect
import json

from .bench.user_workload import load_callable
from .imports import import_guard, instrumentation
from .process.call_limits import CallTimeout, awaited
from .replay.target_functions import Targets
from .values import call_files
from .values.plain_json import NoPlainForm, rebuilt

#: Name of the module that holds the judge.
_MODULE = "codeflash_judge"
#: Seconds that one answer may take.
ANSWER_S = 10.0
_SLOW = "the judge gives no answer within %d s" % ANSWER_S
#: After so many answers that did not come the others are not asked for.
_MOST_SLOW = 2
#: How much of what the judge raised is told.
_SAID_CHARS = 300


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
    proof.instrument = instrumentation.registering(spec, [*calls.values()])
    targets = Targets(spec, instrumentation.REGISTRY)
    judge = load_callable(spec, "accept", _MODULE)
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
    return _read(answer)


def bound(function, args, kwargs):
    """Return arguments by the names of the parameters, defaults included."""
    found = inspect.signature(function).bind(*args, **kwargs)
    found.apply_defaults()
    return dict(found.arguments)


def _raised(what, error):
    return ("%s (%s: %s)" % (what, type(error).__name__, error))[:_SAID_CHARS]


def _read(answer):
    if type(answer) is not bool and type(answer).__name__ not in ("bool", "bool_"):
        return "the judge returns %s, no bool" % type(answer).__name__
    return "" if answer else "the judge returns False"
