"""The loader of proven modules: compiled from source, always, and the digest of those bytes is recorded."""

import ast
import importlib.machinery
from hashlib import sha256

from ..process import current_template


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
        data = self.get_data(self.path)
        if self._proof.probe is not None:
            return self._proof.probe.load(self, fullname, data)
        self._proof.record(self.path, data, fullname)
        return self.compiled(data, self._proof.instrument)

    def compiled(self, data, instrument):
        """Return the code that some bytes give, with an instrumentation's hooks in it (None: as they are)."""
        tree = None if instrument is None else instrument(self._proof.relative(self.path), data, self.path)
        if type(self._found).__name__ == "AssertionRewritingHook":
            tree = rewritten(tree or ast.parse(data, self.path), data, self.path, self._found.config)
        return self._compiler()(data if tree is None else tree, self.path)

    def is_plain(self):
        """Say whether source becomes code as the interpreter alone would have it."""
        rewrites = type(self._found).__name__ == "AssertionRewritingHook"
        code = getattr(self._compiler(), "__code__", None)
        # Somebody may have put a compiler of his own into the interpreter's loaders.
        return not rewrites and code is not None and code.co_filename.startswith("<frozen importlib")

    def _compiler(self):
        own = getattr(type(self._found), "source_to_code", None)
        plain = importlib.machinery.SourceFileLoader.source_to_code
        if own is None or own is plain or not isinstance(self._found, importlib.machinery.SourceFileLoader):
            return super().source_to_code
        return self._found.source_to_code


class VerifiedSources:
    """What proving loaders share: the slot's proven paths, the targets in them, and where records go.

    Attributes:
        instrument: puts hooks into the targets' modules; None: they are compiled as they are.
        probe: takes over the loading of proven modules on the way to `collected`; else None.
    """

    def __init__(self, spec, places, channel):
        self._places = places
        self._channel = channel
        self._spec = spec
        self.instrument = self.probe = None
        self.renew()
        current_template.on_fork(self.renew)

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
