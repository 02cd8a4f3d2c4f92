"""Code of a candidate for the functions of a template that has collected its tests (fork point `collected`).

A candidate that is checked there changes bodies of targets and nothing else (`check.dispatch.fork_points`
compares the syntax trees). So each function of its files exists already, and gets the code that stands in the
same place in the candidate's text: the targets for what they do, the others for their lines.

Nothing may have used the targets' old code before. On the way to the point, the live code of targets counts
calls, and `EarlyReadWatch` notes reads of their files; at the point, copies and other holders of the code are
looked for.
"""

import ast
import builtins
import gc
import os
import sys
import types
import warnings
import weakref

from ..imports import source_loader

#: Exit status of a fork that cannot swap (EX_TEMPFAIL of sysexits.h).
UNSWAPPABLE_STATUS = 75
_CALLED = "__codeflash_called__"
#: Flag of the code of functions; `inspect` knows it, too, but takes long to import.
_OPTIMIZED = 0x1
#: Whether classes know the line on which they begin, and by which names they know their text.
_CLASSES_KNOW_LINES = sys.version_info >= (3, 13)
_OF_ITS_TEXT = frozenset({"__firstlineno__", "__static_attributes__"})


class SwapRefusal(Exception):  # noqa: N818 - a fact about the candidate, one clause
    """The candidate cannot be had by swapping code objects."""


class CodeSwap:
    """The proven modules of a template on its way to `collected`, from before their import.

    Args:
        spec: the template's.
        proof: the guard's `VerifiedSources`.
        watch: notes reads of the targets' files; those of the import system do not count.
    """

    def __init__(self, spec, proof, watch):
        self._proof, self._watch = proof, watch
        self._targets, self._called, self._loads = {}, [], []
        for target in spec.get("targets", ()):
            self._targets.setdefault(target["path"], set()).add(target["qualname"])
        self._files = {os.path.realpath(os.path.join(spec["root"], path)) for path in self._targets}
        setattr(builtins, _CALLED, self._called.append)
        proof.code_swap = self

    def load(self, loader, name):
        """Return the code of a module that is being imported, with a counter in its targets."""
        self._watch.is_on = False
        data = loader.get_data(loader.path)
        self._watch.is_on = True
        targets = self._targets.get(self._proof.relative(loader.path), frozenset())
        code, warned = _compiled(loader, data, self._counting if targets else self._proof.instrument)
        self._loads.append(_ModuleLoad(loader, name, data, targets, code, warned))
        return code

    def _counting(self, relative, data, path):
        instrument = self._proof.instrument
        tree = (instrument and instrument(relative, data, path)) or ast.parse(data, path)
        for qualname in self._targets[relative]:
            for node in source_loader.definitions(tree, qualname.split(".")):
                _insert_call(node, qualname)
        return tree

    def examine(self):
        """Stop watching, and take out the counters; return why nothing can be swapped, one clause."""
        self._proof.code_swap = None
        try:
            self._examine()
        except SwapRefusal as error:
            return str(error)
        return ""

    def _examine(self):
        if self._called:
            raise SwapRefusal(
                "%s was called while modules were imported or tests collected" % self._called[0]
            )
        known = {id(code): load for load in self._loads for _, code in load.outline}
        stranger = made_from(self._files, known)
        if stranger:
            raise SwapRefusal("there are copies of the code of %s" % stranger)
        for load in self._loads:
            load.find_functions()
            load.swap(*_compiled(load.loader, load.data, self._proof.instrument))

    def apply(self):
        """Give all functions the code of their files as these are now, and record what was compiled.

        Raises:
            SwapRefusal: something else differs, too.
        """
        for load in self._loads:
            try:
                data = load.loader.get_data(load.loader.path)
                if data != load.data:
                    load.swap(*_compiled(load.loader, data, self._proof.instrument))
            except Exception as error:
                raise SwapRefusal("%s: %s" % (os.path.basename(load.loader.path), error)) from error
            self._proof.record(load.loader.path, data, load.name)


class _ModuleLoad:
    """One import of a module: its code objects by place, and the functions that have them."""

    def __init__(self, loader, name, data, targets, code, warned):
        self.loader, self.name, self.data, self._targets, self._warned = loader, name, data, targets, warned
        self.outline = _outline(code, targets)
        self._functions = [[] for _ in self.outline]

    def find_functions(self):
        """Find the functions of each code; what else holds that of a target would keep the old one."""
        control = _outline(compile("def function(): pass", "<control>", "exec"), ())
        alone = _references(control, 1)
        # Counted before any name here refers to a code.
        counts = [_references(self.outline, index) for index in range(len(self.outline))]
        places = {id(code): functions for (_, code), functions in zip(self.outline, self._functions)}
        for thing in gc.get_objects():
            if type(thing) is types.FunctionType and id(thing.__code__) in places:
                places[id(thing.__code__)].append(weakref.ref(thing))
        for (name, _), count, functions in zip(self.outline, counts, self._functions):
            if name in self._targets and count - len(functions) > alone:
                raise SwapRefusal("something besides functions holds the code of %s" % name)

    def swap(self, code, warned):
        """Give all functions the code of the same place in another module's code.

        Raises:
            SwapRefusal: what has been executed already would have been something else.
        """
        old, new = self.outline, _outline(code, self._targets)
        if list(map(_executed, old)) != list(map(_executed, new)) or warned != self._warned:
            raise SwapRefusal("more than bodies of functions differs")
        for (name, before), (_, after), functions in zip(old, new, self._functions):
            for function in filter(None, (reference() for reference in functions)):
                function.__code__ = after
            if _CLASSES_KNOW_LINES and name and _is_class(after):
                _tell_class(self.name, name, before.co_firstlineno, after.co_firstlineno)
        self.outline = new


def _compiled(loader, data, instrument):
    """Return the code of some bytes, and the warnings that compiling them gave (without their lines)."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        code = loader.compiled(data, instrument)
    return code, sorted("%s: %s" % (warning.category.__name__, warning.message) for warning in told)


def _insert_call(node, qualname):
    """Note calls of a function by a first statement."""
    call = ast.Expr(ast.Call(ast.Name(_CALLED, ast.Load()), [ast.Constant(qualname)], []))
    for part in ast.walk(call):
        ast.copy_location(part, node.body[0])
    node.body.insert(int(ast.get_docstring(node, clean=False) is not None), call)


def _outline(code, opaque, name=""):
    """Return [(qualified name, code)] of a module's code and all code in it, but for what is in `opaque`."""
    found = [(name, code)]
    for inner in () if name in opaque else code.co_consts:
        if isinstance(inner, types.CodeType):
            found += _outline(inner, opaque, _inner_name(name, code, inner))
    return found


def _inner_name(name, code, inner):
    if inner.co_name.startswith("<generic parameters of "):
        return name
    if code.co_flags & _OPTIMIZED and not code.co_name.startswith("<generic parameters of "):
        name += ".<locals>"
    return "%s.%s" % (name, inner.co_name) if name else inner.co_name


def _executed(place):
    """Return the name of a code; of a module's or class's, which has been executed, what it does, too."""
    name, code = place
    if code.co_flags & _OPTIMIZED:
        return name
    if name and _CLASSES_KNOW_LINES:
        return name, code.co_names, code.co_cellvars, _class_steps(code)
    # Text tells types apart, and the signs of zeros.
    constants = [repr(constant) for constant in code.co_consts if not isinstance(constant, types.CodeType)]
    return name, code.co_names, code.co_cellvars, code.co_code, constants


def _class_steps(code):
    """Return what the body of a class does, but for what it says of its own text."""
    import dis

    steps = []
    for step in dis.get_instructions(code):
        if step.opname == "STORE_NAME" and step.argval in _OF_ITS_TEXT:
            del steps[-1:]
        elif step.opname.endswith("_CONST"):
            constant = step.argval
            steps.append(constant.co_name if isinstance(constant, types.CodeType) else repr(constant))
        else:
            steps.append((step.opname, step.arg))
    return steps


def _is_class(code):
    return not code.co_flags & _OPTIMIZED


def _tell_class(module, name, before, after):
    """Tell a class of a module on which line it begins now."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    if isinstance(found, type) and found.__dict__.get("__firstlineno__") == before:
        type.__setattr__(found, "__firstlineno__", after)


def _references(outline, index):
    return sys.getrefcount(outline[index][1])


def made_from(files, known=()):
    """Return the name of a function from one of some files (their real paths); empty if there is none.

    Args:
        known: identities of code objects that do not count.
    """
    gc.unfreeze()  # a project may have frozen what it holds, and the collector names nothing that is
    names = {os.path.basename(file) for file in files}
    functions = (thing for thing in gc.get_objects() if type(thing) is types.FunctionType)
    for code in (function.__code__ for function in functions):
        path = code.co_filename
        if id(code) not in known and os.path.basename(path) in names and os.path.realpath(path) in files:
            return code.co_name
    return ""
