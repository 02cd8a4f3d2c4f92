"""Plugin of xdist's workers, loaded by ``-p`` before conftests and other plugins; inert elsewhere.

A worker has no record channel: its records go home with what xdist brings back when the worker ends.
PYTEST_DONT_REWRITE
"""

import os


def pytest_addoption(pluginmanager):
    """Set this worker up as the guest itself was, before anything of the project is imported."""
    path = os.environ.get("CODEFLASH_PARALLEL_GUEST_SPEC")
    if path is None or "PYTEST_XDIST_WORKER" not in os.environ:
        return
    from . import bytecode, hooks, importing, plugin, records, session

    spec = session.read_spec(path)
    channel = records.Buffer()
    guard = importing.install(spec, channel)
    bytecode.restrict_rewriter(guard.allows_bytecode)
    recorder = plugin.install_capture(spec, channel, guard)
    pluginmanager.register(hooks.SessionPlugin(spec, channel, guard, recorder, in_worker=True), "codeflash-guest")
