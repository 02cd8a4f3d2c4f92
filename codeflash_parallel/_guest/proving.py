"""The loader of proven modules: compiled from source, always, and the digest of those bytes is recorded."""

import ast
import hashlib
import importlib.machinery


class ProvingLoader(importlib.machinery.SourceFileLoader):
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
        digest = hashlib.sha256(data).hexdigest()
        self._proof.record(self.path, digest, fullname)
        tree = self._proof.instrumented(self.path, data)
        if type(self._found).__name__ == "AssertionRewritingHook":
            tree = rewritten(tree or ast.parse(data, self.path), data, self.path, self._found.config)
        return self._compiler()(data if tree is None else tree, self.path)

    def _compiler(self):
        own = getattr(type(self._found), "source_to_code", None)
        plain = importlib.machinery.SourceFileLoader.source_to_code
        if own is None or own is plain or not isinstance(self._found, importlib.machinery.SourceFileLoader):
            return super().source_to_code
        return self._found.source_to_code


class Proof:
    """What proving loaders share: the slot's proven paths, the targets in them, and where records go."""

    def __init__(self, spec, places, channel):
        self._places = places
        self._channel = channel
        self._paths = {*spec.get("prove", ()), *(target["path"] for target in spec.get("targets", ()))}
        self.instrument = None

    def loader_for(self, name, spec):
        """Return a proving loader for an import spec, or None when its module needs no proof."""
        relative = self._places.relative(spec.origin)
        if relative not in self._paths:
            return None
        return ProvingLoader(name, spec.origin, self, spec.loader)

    def record(self, path, digest, module):
        """Record one load."""
        self._channel.write("source", path=self._places.relative(path), digest=digest, module=module)

    def instrumented(self, path, data):
        """Return the module's tree with our hooks in it, or None to compile the bytes as they are."""
        if self.instrument is None:
            return None
        return self.instrument(self._places.relative(path), data, path)


def rewritten(tree, data, path, config):
    """Rewrite assertions as pytest does; the plain tree when this pytest does it another way."""
    from _pytest.assertion import rewrite

    try:
        rewrite.rewrite_asserts(tree, data, path, config)
    except (AttributeError, TypeError):
        return ast.parse(data, path)
    return tree
