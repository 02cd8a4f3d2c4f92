"""Plugin of xdist's workers; inert elsewhere. PYTEST_DONT_REWRITE.

A worker is prepared by its controller before it imports anything of the project, and gets its hooks when
pytest loads this module by ``-p``. It has no record channel: its records go home with what xdist brings back.
"""

from . import importing, plugin, records, session

_PREPARED = []


def preparation(spec):
    """Return the code that the controller runs in a new worker, first of all."""
    return "import sys\nsys.path.append(%r)\nfrom _codeflash_guest import worker\nworker.prepare(%r, %r)" % (
        spec["guest"],
        spec["path"],
        spec.get("canaries", []),
    )


def prepare(path, canaries):
    """Install the import guard (and the capture) that the spec in a file asks for.

    Args:
        canaries: of this run; the controller has removed the file that they were in.
    """
    spec = dict(session.read_spec(path), canaries=canaries)
    channel = records.Buffer()
    guard = importing.install(spec, channel)
    _PREPARED.append((spec, channel, guard, plugin.Recording(spec, channel, guard)))


def pytest_addoption(pluginmanager):
    """Register the hooks of a prepared worker."""
    if not _PREPARED:
        return
    from . import bytecode, hooks, runner

    spec, channel, guard, recording = _PREPARED[0]
    bytecode.restrict_rewriter(guard.allows_bytecode)
    session_plugin = hooks.SessionPlugin(spec, channel, guard, recording, in_worker=True)
    pluginmanager.register(session_plugin, "codeflash-guest")
    pluginmanager.register(runner.Runner(guard.places, channel), "codeflash-runner")
