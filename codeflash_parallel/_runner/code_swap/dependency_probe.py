"""Tell whether anything depends on the code of target functions before a candidate's code can take its place.

A target that was called while modules were imported or tests collected may have left results in tables,
parametrize lists and caches; who read its code object may have copied it or drawn conclusions from it.
"""

import ast
import builtins
import os
import types
from sys import _getframe

from ..imports import instrumentation
from ..process import audit_hook

#: Kept from the start: a project may replace it.
_stat = os.stat

_CALLED = "__codeflash_called__"

#: Readers of `__code__` that look only at what a swap leaves equal (kind, arguments, file), by module file.
_HARMLESS = {
    "inspect.py": {
        "_has_code_flag",
        "_signature_from_function",
        "_signature_is_functionlike",
        "getfile",
        "isgeneratorfunction",
        "iscoroutinefunction",
    },
    "typing.py": {"overload"},
    # Where pytest says that a test or fixture stands.
    "source.py": {"getrawcode"},
}

#: Readers of source files that show lines of it to people; whoever asked them stands above in the stack.
_SHOWERS = frozenset({"tokenize.py", "linecache.py", "codecs.py"})
_HARMLESS_SHOWS = frozenset({"traceback.py", "warnings.py"})
#: Methods of the import system's loaders that anybody may call.
_LOADERS_READ = frozenset({"get_data", "get_source"})

_THIS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: Decorators besides those that can be wrapped: they keep the function and neither call nor look into it.
_KEEPING = {"contextlib.contextmanager", "contextlib.asynccontextmanager", "functools.singledispatchmethod"}

#: Decorators of classes that leave the methods that they find as they are.
_CLASS_KEEPING = {
    "dataclasses.dataclass",
    "functools.total_ordering",
    "enum.unique",
    "typing.final",
    "typing.runtime_checkable",
    "typing_extensions.final",
    "typing_extensions.runtime_checkable",
    "attr.s",
    "attr.attrs",
    "attr.define",
    "attr.frozen",
    "attr.mutable",
    "attrs.define",
    "attrs.frozen",
    "attrs.mutable",
}


class CallCounter:
    """Counts calls of targets by (path, qualname), by a first statement that it puts into their bodies."""

    def __init__(self, targets):
        self.counts = {}
        self._numbers = []
        self._targets = targets
        setattr(builtins, _CALLED, self._called)

    def _called(self, number):
        key = self._numbers[number]
        self.counts[key] = self.counts.get(key, 0) + 1

    def insert(self, tree, path):
        """Put the counting statement into the targets of a module's tree."""
        for qualname in self._targets.get(path, ()):
            self._numbers.append((path, qualname))
            for node in instrumentation.definitions(tree, qualname.split(".")):
                _prepend(node, len(self._numbers) - 1)
        return tree


def _prepend(node, number):
    call = ast.Expr(ast.Call(ast.Name(_CALLED, ast.Load()), [ast.Constant(number)], []))
    is_documented = ast.get_docstring(node, clean=False) is not None
    for part in ast.walk(call):
        ast.copy_location(part, node.body[0])
    node.body.insert(int(is_documented), call)


class CodeReadWatch:
    """Notes who reads code objects of the targets' files, by (path, qualname), or these files, by path.

    Args:
        files: the targets' absolute paths by relative path.
    """

    def __init__(self, files):
        self.code_readers, self.file_readers = {}, {}
        self._files = {absolute: relative for relative, absolute in files.items()}
        self._by_identity = {_identity(absolute): relative for relative, absolute in files.items()}
        self._by_identity.pop(None, None)

    def start(self):
        """Watch until `stop`; returns the watch."""
        audit_hook.listen(["object.__getattr__"], self._attribute_read)
        audit_hook.listen(["open"], self._opened)
        return self

    def stop(self):
        """Note nothing more."""
        audit_hook.stop(self._attribute_read)
        audit_hook.stop(self._opened)

    def _attribute_read(self, event, args):  # noqa: ARG002 - the signature of listeners
        if args[1] == "__code__":
            self._code_read(args[0], _getframe(2))

    def _opened(self, event, args):  # noqa: ARG002
        relative = self._by_identity.get(_identity(args[0]))
        reader = _asking(_getframe(2)) if relative is not None else None
        if reader is not None:
            self.file_readers.setdefault(relative, _place(reader))

    def _code_read(self, function, frame):
        if type(function) is not types.FunctionType:
            return
        relative = self._files.get(function.__globals__.get("__file__"))
        code = frame.f_code
        if code.co_filename.startswith(_THIS):
            return  # a wrapper asks what kind of function it is to stand for
        if relative and code.co_name not in _HARMLESS.get(os.path.basename(code.co_filename), ()):
            self.code_readers.setdefault((relative, function.__qualname__), _place(frame))


def _identity(path):
    """Return what is the same by whatever name a file is opened; None where there is no file."""
    try:
        found = _stat(path)
    except (OSError, ValueError, TypeError):
        return None
    return found.st_dev, found.st_ino


def _asking(frame):
    """Return the frame that wanted a file's text; None when it was the import system or a message."""
    while frame is not None and _is_between(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return None
    file = frame.f_code.co_filename
    is_import = file.startswith(("<frozen importlib", _THIS))
    return None if is_import or os.path.basename(file) in _HARMLESS_SHOWS else frame


def _is_between(code):
    """Say whether a frame reads a file for somebody else: shows lines, or is asked as a module's loader."""
    is_loader = code.co_filename.startswith("<frozen importlib") and code.co_name in _LOADERS_READ
    return is_loader or os.path.basename(code.co_filename) in _SHOWERS


def _place(frame):
    return "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)


def decorated(data, path, qualname):
    """Return which decorator of a target or of a class around it may look into it; empty if none."""
    tree = ast.parse(data, path)
    imports = instrumentation.imported_names(tree)
    names = qualname.split(".")
    found = list(instrumentation.definitions(tree, names))
    if not found:
        return "no function of that name is defined in the module"
    around = [node for count in range(1, len(names)) for node in _classes(tree, names[:count])]
    own = {"%s.%s" % (names[-1], accessor) for accessor in ("setter", "getter", "deleter")}
    for nodes, known in ((found, _KEEPING | own), (around, _CLASS_KEEPING)):
        for node in nodes:
            for decorator in node.decorator_list:
                name = instrumentation.dotted(decorator, imports)
                if name not in known and not (nodes is found and instrumentation.is_known(name)):
                    return "decorated with %s" % name
    return ""


def _classes(node, names):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef) and child.name == names[0]:
            if len(names) == 1:
                yield child
            else:
                yield from _classes(child, names[1:])
        elif not isinstance(child, (ast.expr, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _classes(child, names)
