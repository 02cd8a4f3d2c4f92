"""Bytecode is written below the slot only: never into the user's tree, its environment, or elsewhere."""

import importlib.machinery
import sys

from ..paths.path_locations import both_forms, under


def restrict_bytecode(spec):
    """Let this process write bytecode, but only below the slot's root and beside our own modules.

    The environment forbids bytecode altogether, which is what the interpreters that tests start get.
    """
    folders = [*both_forms(spec["root"]), *both_forms(spec["guest"])]

    def allowed(path):
        return any(under(str(path), folder) for folder in folders)

    write = importlib.machinery.SourceFileLoader.set_data

    def set_data(self, path, data, **how):
        if allowed(path):
            write(self, path, data, **how)

    importlib.machinery.SourceFileLoader.set_data = set_data
    sys.dont_write_bytecode = False
    return allowed


def restrict_rewriter(allowed):
    """Do the same for pytest's assertion rewriter, which has a cache of its own."""
    from _pytest.assertion import rewrite

    write = getattr(rewrite, "_write_pyc", None)
    make = getattr(rewrite, "try_makedirs", None)
    if write is None or make is None:
        # A pytest whose rewriter we do not know writes nothing.
        sys.dont_write_bytecode = True
        return
    rewrite._write_pyc = lambda state, co, stat, pyc: allowed(pyc) and write(state, co, stat, pyc)
    rewrite.try_makedirs = lambda folder: allowed(folder) and make(folder)
