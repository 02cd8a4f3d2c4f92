"""The loader of proven modules: always compiled from source, with a record of the digest of those bytes.

Bytecode of other modules is written below the slot only: never into the user's tree or its environment.
"""

import ast
import importlib.machinery
import sys
from hashlib import sha256

from ..session import on_fork
from ..slot_paths import both_forms, under


class VerifiedSourceLoader(importlib.machinery.SourceFileLoader):
    """Loads one module from its source and says which bytes it compiled; never reads or writes bytecode.

    A loader that was found for the module keeps its say in how source becomes code (pytest's assertion
    rewriting, the import hooks of type checkers).
    """

    def __init__(self, name, path, proof, found):
        super().__init__(name, path)
        self._proof = proof
        self._found = found

    def get_code(self, fullname):
        """Compile the module."""
        if self._proof.code_swap is not None:
            return self._proof.code_swap.load(self, fullname)
        data = self.get_data(self.path)
        self._proof.record(self.path, data, fullname)
        return self.compiled(data, self._proof.instrument)

    def compiled(self, data, instrument):
        """Return the code that some bytes give, with an instrumentation's hooks in it (None: as they are)."""
        tree = None if instrument is None else instrument(self._proof.relative(self.path), data, self.path)
        if type(self._found).__name__ == "AssertionRewritingHook":
            tree = rewritten(tree or ast.parse(data, self.path), data, self.path, self._found.config)
        return self._compiler()(data if tree is None else tree, self.path)

    def _compiler(self):
        own = getattr(type(self._found), "source_to_code", None)
        plain = importlib.machinery.SourceFileLoader.source_to_code
        if own is None or own is plain or not isinstance(self._found, importlib.machinery.SourceFileLoader):
            return super().source_to_code
        return self._found.source_to_code


class VerifiedSources:
    """The proven paths of a slot, the instrumentation of their modules, and the channel of their records.

    Attributes:
        instrument: puts hooks into the targets' modules; None: they are compiled as they are.
        code_swap: takes over the loading of proven modules on the way to `collected`; else None.
    """

    def __init__(self, spec, places, channel):
        self._places = places
        self._channel = channel
        self._spec = spec
        self.instrument = self.code_swap = None
        self.renew()
        on_fork(self.renew)

    def renew(self):
        """Take the paths to be proven from the spec."""
        spec = self._spec
        self._paths = {*spec.get("prove", ()), *(target["path"] for target in spec.get("targets", ()))}

    def loader_for(self, name, spec):
        """Return a proving loader for an import spec, or None when its module needs no proof."""
        relative = self._places.relative(spec.origin)
        if relative not in self._paths:
            return None
        return VerifiedSourceLoader(name, spec.origin, self, spec.loader)

    def relative(self, path):
        """Return a path relative to the slot's root."""
        return self._places.relative(path)

    def record(self, path, data, module):
        """Record one load: which bytes were compiled."""
        digest = sha256(data).hexdigest()
        self._channel.write("source", path=self.relative(path), digest=digest, module=module)


def rewritten(tree, data, path, config):
    """Rewrite assertions as pytest does; the plain tree when this pytest does it another way."""
    from _pytest.assertion import rewrite

    try:
        rewrite.rewrite_asserts(tree, data, path, config)
    except (AttributeError, TypeError):
        return ast.parse(data, path)
    return tree


def restrict_bytecode(spec):
    """Let this process write bytecode, but only below the slot's root and beside our own modules.

    The environment forbids bytecode altogether, which is what the interpreters that tests start get.
    """
    folders = [*both_forms(spec["root"]), *both_forms(spec["runner"])]

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
