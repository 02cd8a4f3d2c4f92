"""Plugin of xdist's workers; inert elsewhere. PYTEST_DONT_REWRITE.

A worker is prepared by its controller before it imports anything of the project, and gets its hooks when
pytest loads this module by ``-p``. It has no record channel: its records go home with what xdist brings back.
"""

from .. import session
from ..channel import record_channel
from ..imports import import_guard
from . import pytest_session

_PREPARED = []


def prepare(path, canaries):
    """Install the import guard (and the capture) that the spec in a file asks for.

    Args:
        canaries: of this run; the controller has removed the file that they were in.
    """
    spec = dict(session.read_spec(path), canaries=canaries)
    channel = record_channel.RecordBuffer()
    guard = import_guard.install(spec, channel)
    _PREPARED.append((spec, channel, guard, pytest_session.TargetRecording(spec, channel, guard)))


def pytest_addoption(pluginmanager):
    """Register the hooks of a prepared worker."""
    if not _PREPARED:
        return
    from ..imports import source_loader
    from ..integrity import pytest_functions
    from . import session_plugin

    spec, channel, guard, recording = _PREPARED[0]
    source_loader.restrict_rewriter(guard.allows_bytecode)
    plugin = session_plugin.SessionPlugin(spec, channel, guard, recording, in_worker=True)
    pluginmanager.register(plugin, "codeflash-guest")
    pluginmanager.register(pytest_functions.PytestIntegrity(guard.places, channel), "codeflash-runner")
