"""One runner from its spec to its exit status: surroundings first, then the mode's own work."""

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
    "accept": ".user_code",
}

#: Tells spawned children and xdist workers where the spec lies.
SPEC_VARIABLE = "CODEFLASH_PARALLEL_RUNNER_SPEC"


class RunnerFailure(Exception):  # noqa: N818 - written as a record, never raised to users
    """The runner cannot do its work; `where` names the part."""

    def __init__(self, where, message):
        super().__init__(message)
        self.where = where


#: The template server that this process is, if any.
_TEMPLATE = []


def template():
    """Return the template server that this process is; None when it is none (any more)."""
    return _TEMPLATE[0] if _TEMPLATE else None


def set_template(server):
    """Make this process a template, or with None no longer one."""
    _TEMPLATE[:] = [] if server is None else [server]


def on_fork(renew):
    """Have something called in each fork of a template, once the spec is the fork's own."""
    if _TEMPLATE:
        _TEMPLATE[0].on_fork(renew)


def read_spec(path):
    """Return the spec in a file, and as "path" where this process finds that once it is confined."""
    with open(path, "rb") as file:
        spec = json.loads(file.read())
    if spec.get("protocol") != PROTOCOL:
        raise RunnerFailure("spec", "protocol %r, this runner speaks %d" % (spec.get("protocol"), PROTOCOL))
    seen = os.path.join(spec["private"], os.path.basename(path)) if spec.get("mounts") else path
    return dict(spec, path=os.path.abspath(seen))


def run(spec, channel, control):
    """Run the mode of a spec and return the exit status.

    Args:
        control: the control descriptor in a list, or an empty one.
    """
    enter(spec)
    type_handlers.take_encoders(spec.get("encoders", ()))
    mode = spec["mode"]
    if mode == "command":
        hello(channel)
        return _run_command(spec, channel)
    if mode not in _MODES:
        raise RunnerFailure("spec", "unknown mode %r" % (mode,))
    if mode != "tests" and spec.get("work") not in IN_PYTEST:
        hello(channel)
    work = importlib.import_module(_MODES[mode], __package__)
    return work.run(spec, channel, *control) or 0


def _run_command(spec, channel):
    """Run the user's command in the project's folder; its output is the runner's own."""
    import subprocess

    program, environment = located(spec["command"][0])
    if program is None:
        channel.write("command", status=None)
        return 127
    argv = [program, *spec["command"][1:]]
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, check=False)
    channel.write("command", status=done.returncode)
    return 0


def located(program):
    """Return a program's path, or None, and the environment of it: "python" is the project's interpreter."""
    import shutil

    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    path = os.pathsep.join(folders)
    return shutil.which(program, path=path), dict(os.environ, PATH=path)


def enter(spec):
    """Go to the project's folder, and put it first on `sys.path`, as ``python -m pytest`` does."""
    os.chdir(spec["project"])
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, spec["project"])


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
