"""One guest from its spec to its exit status: surroundings first, then the mode's own work."""

import importlib
import json
import os
import sys

from .values import type_handlers

#: Version of spec and records.
PROTOCOL = 1

#: Work of an arm that needs a pytest session; that one writes the first record.
IN_PYTEST = ("tests", "in-place", "pytest-benchmark")

#: The module that does the work of a mode.
_MODES = {
    "tests": ".pytest_plugin.pytest_session",
    "arm": ".bench.race_arm",
    "replay": ".replay.replay_session",
    "profile": ".profile.line_profile",
    "derive": ".inputs.derived_inputs",
    "twins": ".inputs.twin_inputs",
    "command": ".user_command",
    "accept": ".user_judge",
}

#: What a pytest around the evaluator (our own tests) tells its children; this session is not its worker.
_OTHERS_VARIABLES = (
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "PYTEST_XDIST_TESTRUNUID",
    "PYTEST_CURRENT_TEST",
)


class RunnerFailure(Exception):  # noqa: N818 - told in a record, never raised to anybody
    """The guest cannot do its work; `where` says in which part."""

    def __init__(self, where, message):
        super().__init__(message)
        self.where = where


def read_spec(path):
    """Return the spec in a file, and its own place as "path"."""
    with open(path, "rb") as file:
        spec = json.loads(file.read())
    if spec.get("protocol") != PROTOCOL:
        raise RunnerFailure("spec", "protocol %r, this guest speaks %d" % (spec.get("protocol"), PROTOCOL))
    return dict(spec, path=os.path.abspath(path))


def run(spec, channel, control):
    """Do what the spec asks for and return the exit status.

    Args:
        control: the control descriptor in a list, or an empty one.
    """
    enter(spec)
    type_handlers.take_encoders(spec.get("encoders", ()))
    mode = spec["mode"]
    if mode not in _MODES:
        raise RunnerFailure("spec", "unknown mode %r" % (mode,))
    if mode != "tests" and spec.get("work") not in IN_PYTEST:
        hello(channel)
    work = importlib.import_module(_MODES[mode], __package__)
    return work.run(spec, channel, *control) or 0


def enter(spec):
    """Be where ``python -m pytest`` would be: in the project's folder, which comes first on `sys.path`."""
    os.chdir(spec["project"])
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, spec["project"])
    for name in _OTHERS_VARIABLES:
        os.environ.pop(name, None)


def hello(channel, pytest=None, plugins=()):
    """Write the first record."""
    channel.write(
        "hello",
        protocol=PROTOCOL,
        python=".".join(map(str, sys.version_info[:3])),
        implementation=sys.implementation.name,
        pytest=pytest,
        pid=os.getpid(),
        plugins=list(plugins),
    )
