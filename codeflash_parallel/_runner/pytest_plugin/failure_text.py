"""Texts on failures, as cheap as the spec allows: pytest's own parse the sources of all frames."""

import linecache
import os

#: Longest message of a failed phase; the head says what was asked, the tail why it failed.
_HEAD, _TAIL = 3_000, 4_980
#: Of its own message, in front of the frames.
_FIRST = 1_000
#: Frames of a native traceback, the innermost ones.
_FRAMES = 20


def make_cheap(item, tracebacks):
    """Have the failures of an item told in another way than pytest's, if `tracebacks` says so."""
    if tracebacks == "none":
        item.repr_failure = item._repr_failure_py = plain_failure
    elif tracebacks == "native" and hasattr(item, "obj") and not hasattr(item, "dtest"):
        # Doctests and other plugins' items have texts of their own.
        item._repr_failure_py = native_failure


def plain_failure(excinfo, style=None):  # noqa: ARG001 - pytest's signature
    """Return one line on a failure: making tracebacks takes most of a failing test's time."""
    return message_of(excinfo.value)[:_FIRST]


def native_failure(excinfo, style=None):  # noqa: ARG001 - pytest's signature
    """Return the message of a failure, its frames below the test runner's, and the message once more."""
    message = message_of(excinfo.value)
    frames = _frames(excinfo.tb)
    cause = _cause(excinfo.value)
    return shortened("\n".join([message[:_FIRST], "", *frames, *cause, message]))


def message_of(error):
    """Return the name of an exception's type and its text."""
    argument = getattr(error, "argname", None)
    try:
        text = "fixture %r not found" % argument if argument and not getattr(error, "msg", "") else str(error)
    except BaseException as own:
        text = "<its text cannot be made: %s>" % type(own).__name__
    return "%s: %s" % (type(error).__name__, text)


def _frames(tb):
    lines = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if lines or not _is_runner(code.co_filename):
            line = linecache.getline(code.co_filename, tb.tb_lineno, tb.tb_frame.f_globals).strip()
            lines.append(
                "%s:%d: in %s\n    %s" % (_relative(code.co_filename), tb.tb_lineno, code.co_name, line)
            )
        tb = tb.tb_next
    return lines[-_FRAMES:]


def _cause(error):
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [] if cause is None else ["after %s" % message_of(cause)[:_FIRST]]


def _is_runner(file):
    return "/_pytest/" in file or "/pluggy/" in file


def _relative(file):
    here = os.getcwd() + os.sep
    return file[len(here) :] if file.startswith(here) else file


def shortened(text):
    """Return a text of at most 8,000 characters."""
    if len(text) <= _HEAD + _TAIL + 20:
        return text
    return "%s\n[...]\n%s" % (text[:_HEAD], text[-_TAIL:])
