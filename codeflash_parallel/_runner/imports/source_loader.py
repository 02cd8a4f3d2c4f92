"""The loader of proven modules: always compiled from source, with a record of the digest of those bytes.

Bytecode of other modules is written below the slot only: never into the user's tree or its environment.

Before a module is compiled, an `Instrumentation` may put our hooks around its target functions, in the syntax
tree. Where all decorators are ones that we know, the finished object is wrapped (via "outer"); else only the
plain function below the project's own decorators can be (via "inner"). The names of the hooks live in
`builtins`, so the module's own namespace stays as it is.
"""

import ast
import builtins
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


#: Functions of "inner" targets by target number, filled while their modules are loaded for a replay.
REGISTRY = {}

#: Decorators whose result we can wrap from outside.
_KNOWN = {
    "builtins": {"staticmethod", "classmethod", "property"},
    "functools": {"cache", "lru_cache", "cached_property", "wraps", "singledispatch"},
    "abc": {"abstractmethod"},
    "typing": {"final", "override", "no_type_check"},
    "typing_extensions": {"final", "override", "no_type_check", "deprecated"},
    "warnings": {"deprecated"},
}

#: Packages whose decorators compile a function's source or bytecode: a hook inside would break them, and one
#: outside would hide what they make.
_COMPILERS = frozenset({"numba", "cython", "jax", "torch", "triton", "taichi", "pythran", "transonic"})

_OUTER, _INNER = "__codeflash_outer__", "__codeflash_inner__"


def wrapping(spec, outer, inner):
    """Return the instrumentation of a test run: `outer` and `inner` make wrappers.

    Args:
        outer, inner: called with a target number and a module name; return a decorator.
    """
    setattr(builtins, _OUTER, outer)
    setattr(builtins, _INNER, inner)
    return Instrumentation(spec, {"outer": _OUTER, "inner": _INNER})


def registering(spec, calls):
    """Return what puts the functions that "inner" calls go to into `REGISTRY` while modules are loaded.

    It wraps nothing, and is None when there are no such calls: then every module is compiled as it is.
    """
    inner = {call.meta["target"] for call in calls if call.meta["via"] == "inner"}
    if not inner:
        return None
    setattr(builtins, _INNER, _register)
    return Instrumentation(spec, {"inner": _INNER}, inner)


def _register(target, module):  # noqa: ARG001 - the hooks' common signature
    def keep(function):
        REGISTRY[target] = function
        return function

    return keep


class Instrumentation:
    """Callable that returns a module's tree with hooks in it, or None when there is nothing to put in.

    Args:
        hooks: names of the hooks by "outer" and "inner".
        only: numbers of the targets that get hooks; None: all.
    """

    def __init__(self, spec, hooks, only=None):
        self._hooks = hooks
        self._by_path = {}
        for number, target in enumerate(spec.get("targets", ())):
            if only is None or number in only:
                self._by_path.setdefault(target["path"], []).append((number, target["qualname"].split(".")))

    def __call__(self, relative, data, path):
        targets = self._by_path.get(relative)
        if not targets:
            return None
        tree = ast.parse(data, path)
        imports = imported_names(tree)
        changed = [self._target(tree, imports, number, names) for number, names in targets]
        return tree if any(changed) else None

    def _target(self, tree, imports, number, names):
        found = [node for node in definitions(tree, names) if not is_accessory(node, imports)]
        return sum(self._definition(node, imports, number) for node in found) > 0

    def _definition(self, node, imports, number):
        via = via_of(node, imports)
        hook = self._hooks.get(via)
        if hook is None:
            return False
        place = node.decorator_list[0] if node.decorator_list else node
        call = _call(hook, number, place if via == "outer" else node)
        node.decorator_list.insert(0 if via == "outer" else len(node.decorator_list), call)
        return True


def _call(hook, number, place):
    """Return ``hook(number, __name__)``, at a place that leaves the function's first line where it was."""
    call = ast.Call(ast.Name(hook, ast.Load()), [ast.Constant(number), ast.Name("__name__", ast.Load())], [])
    for node in ast.walk(call):
        if hasattr(node, "lineno") or isinstance(node, ast.expr):
            node.lineno = node.end_lineno = place.lineno
            node.col_offset = node.end_col_offset = place.col_offset
    return call


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def definitions(node, names):
    """Yield the function definitions with a dotted name, also those inside ``if`` and ``try`` blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            if len(names) == 1 and child.name == names[0]:
                yield child
        elif isinstance(child, ast.ClassDef):
            if len(names) > 1 and child.name == names[0]:
                yield from definitions(child, names[1:])
        elif not isinstance(child, ast.expr):
            yield from definitions(child, names)


def imported_names(tree):
    """Return what the names that a module imports stand for, dotted."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                names[bound] = alias.name if alias.asname else bound
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = "%s.%s" % (node.module, alias.name)
    return names


def is_accessory(node, imports):
    """Say whether a definition is a property's setter or deleter, or a typing overload."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter", "getter"):
            return True
        if dotted(decorator, imports) in ("typing.overload", "typing_extensions.overload"):
            return True
    return False


def via_of(node, imports):
    """Return "outer" or "inner"; empty where the function cannot be wrapped at all."""
    names = [dotted(decorator, imports) for decorator in node.decorator_list]
    if any(name.partition(".")[0] in _COMPILERS for name in names):
        return ""
    return "outer" if all(map(_is_known, names)) else "inner"


def _is_known(name):
    """Say whether the decorator of a dotted name is one whose result we can wrap."""
    module, _, attribute = name.rpartition(".")
    return attribute in _KNOWN.get(module or "builtins", ())


def dotted(decorator, imports):
    """Return the full dotted name of a decorator, as far as the module's imports tell; "?" for others."""
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    parts = []
    while isinstance(decorator, ast.Attribute):
        parts.append(decorator.attr)
        decorator = decorator.value
    if not isinstance(decorator, ast.Name):
        return "?"
    return ".".join([imports.get(decorator.id, decorator.id), *reversed(parts)])
