"""Start of the runner: ``python .../_codeflash_runner/__main__.py <spec.json> <records fd> [<control fd>]``.

Runs in the project's interpreter. A process that `multiprocessing` spawns imports this file as its main
module, too; it then only gets the guard that keeps imports inside the slot.
"""

import os
import sys

#: Exit status of a runner that failed by itself (EX_SOFTWARE of sysexits.h).
_OWN_FAILURE = 70

#: As `session.SPEC_VARIABLE`, which is not loaded where a process is spawned without it.
_SPEC = "CODEFLASH_PARALLEL_RUNNER_SPEC"


def _make_importable():
    """Put the folder of our package at the end of `sys.path`, and our own folder nowhere (`profile` ...)."""
    folder = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.realpath(sys.path[0] or ".") == os.path.realpath(folder):
        del sys.path[0]
    home = os.path.dirname(folder)
    if home not in sys.path:
        sys.path.append(home)


def main(arguments):
    """Run the runner and end the process; does not return."""
    _make_importable()
    from _codeflash_runner import channels

    channel = channels.RecordChannel(int(arguments[1]))
    status = _OWN_FAILURE
    try:
        status = _run(arguments, channel)
    except BaseException as error:
        _tell(channel, error)
    channel.end(status)
    _leave(status)


def _run(arguments, channel):
    from _codeflash_runner import channels, session

    spec = session.read_spec(arguments[0])
    channel.seal_with(channels.take_secret(spec))
    os.environ[_SPEC] = spec["path"]
    control = [int(fd) for fd in arguments[2:]]
    if spec["mode"] == "forkserver":
        from _codeflash_runner.bench import race_arm

        forked = race_arm.run_server(spec, channel, control.pop())
        if forked == 0:
            return 0
        spec, *control = forked
        os.environ[_SPEC] = spec["path"]
    _confine(spec, channel)
    if "serve" in spec:
        from _codeflash_runner.forkserver import template_server

        template_server.begin(spec, channel, control.pop())
    return session.run(spec, channel, control)


def _confine(spec, channel):
    """Confine this process before it runs any code of the project."""
    from _codeflash_runner.sandbox import confinement

    if "serve" in spec:
        confinement.confine_template(spec)
    elif spec["mode"] != "arm":
        confinement.confine_and_tell(spec, channel)


def _tell(channel, error):
    import traceback

    where = getattr(error, "where", None) or "runner"
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    message = str(error) if where != "runner" else "".join(lines)[-4000:]
    channel.write("error", where=where, message=message)


def _leave(status):
    # Not through the interpreter's shutdown: an atexit handler or a thread of a candidate must not hold
    # the slot.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(status)


def _spawned():
    """Give a process that `multiprocessing` spawned the same guard; it must not fail for our sake."""
    _make_importable()
    try:
        from _codeflash_runner import channels, session
        from _codeflash_runner.imports import import_guard

        import_guard.install(session.read_spec(os.environ[_SPEC]), channels.RecordBuffer())
    except Exception as error:
        sys.stderr.write("codeflash-parallel: no import guard in this child: %r\n" % (error,))


if __name__ == "__main__":
    main(sys.argv[1:])
elif __name__ == "__mp_main__" and _SPEC in os.environ:
    _spawned()
