"""Compare what two compiles of a file gave, code object by code object.

Names are dotted as in ``__qualname__``. "Lines" are first line and line table: what an edit above moves.
"""

import dis
import types

#: All that makes a code object what it is, except its constants, its file and its lines.
_ATTRIBUTES = (
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_flags",
    "co_argcount",
    "co_posonlyargcount",
    "co_kwonlyargcount",
    "co_name",
    "co_qualname",
    "co_exceptiontable",
)

#: What a function object takes from its code when it is made, or what others may have asked it for.
_INTERFACE = {
    "co_name": "name",
    "co_argcount": "arguments",
    "co_posonlyargcount": "arguments",
    "co_kwonlyargcount": "arguments",
    "co_freevars": "free variables",
}

#: Flags of code objects; `inspect` knows them, too, but takes long to import.
_OPTIMIZED, _VARARGS, _VARKEYWORDS, _NO_FREE = 0x1, 0x4, 0x8, 0x40

#: What the compiler stores in a class besides what its body says (Python 3.13 and later).
_FACTS = ("__firstlineno__", "__static_attributes__")


def outline(code, opaque, name=""):
    """Return [(name, code)] of some code, a module's if it has no name, and all in it but in `opaque`."""
    return list(_outline(code, opaque, name))


def parts(code, opaque):
    """Return the outlines of what stands at the top of a module's code, in their order."""
    inside = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return [outline(inner, opaque, _inner_name("", code, inner)) for inner in inside]


def moved(code, lines):
    """Return code as it is when its text stands some lines further down."""
    inside = tuple(moved(c, lines) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_firstlineno=code.co_firstlineno + lines, co_consts=inside)


def _outline(code, opaque, name):
    yield name, code
    if name not in opaque:
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from _outline(constant, opaque, _inner_name(name, code, constant))


def _inner_name(name, code, inner):
    if inner.co_name.startswith("<generic parameters of "):
        return name
    if code.co_flags & _OPTIMIZED and not code.co_name.startswith("<generic parameters of "):
        name += ".<locals>"
    return "%s.%s" % (name, inner.co_name) if name else inner.co_name


def difference(old, new, changeable, name=""):
    """Return what differs besides lines and the bodies of `changeable` names: a clause, empty if nothing."""
    if name in changeable:
        return interface_difference(old, new, name)
    if any(getattr(old, key, None) != getattr(new, key, None) for key in _ATTRIBUTES):
        return "%s differs" % _described(name, old)
    if len(old.co_consts) != len(new.co_consts):
        return "%s differs" % _described(name, old)
    for index, (one, other) in enumerate(zip(old.co_consts, new.co_consts)):
        why = _constant_difference((old, new), index, (one, other), changeable, name)
        if why:
            return why
    return ""


def _constant_difference(codes, index, constants, changeable, name):
    one, other = constants
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return difference(one, other, changeable, _inner_name(name, codes[0], one))
    if same(one, other) or (_is_fact(codes[0], index) and _is_fact(codes[1], index)):
        return ""
    return "a constant of %s differs" % _described(name, codes[0])


def _described(name, code):
    if not name:
        return "the module's own code"
    return name if code.co_flags & _OPTIMIZED else "the body of class %s" % name


def interface_difference(old, new, name):
    """Return what differs in what a function shows to others: a clause, empty if nothing."""
    for key, word in _INTERFACE.items():
        if getattr(old, key) != getattr(new, key):
            return "the %s of %s differ" % (word, name)
    if (old.co_flags ^ new.co_flags) & ~_NO_FREE:
        return "%s is of another kind (generator, coroutine, docstring)" % name
    count = old.co_argcount + old.co_kwonlyargcount
    count += bool(old.co_flags & _VARARGS) + bool(old.co_flags & _VARKEYWORDS)
    if old.co_varnames[:count] != new.co_varnames[:count]:
        return "the arguments of %s differ" % name
    return "" if _docstring(old) == _docstring(new) else "the docstring of %s differs" % name


def _docstring(code):
    # From 3.13 on a flag says whether there is one; the flags are equal when this is asked.
    first = code.co_consts[0] if code.co_consts else None
    return first if isinstance(first, str) else None


def same(one, other):
    """Say whether two constants are the same in type and value, the order of a set's items included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, frozenset)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (float, complex)):
        # -0.0 is no 0.0, and a nan is what it is.
        return repr(one) == repr(other)
    return one == other


def lines(code):
    """Return what moves when lines above are added or removed."""
    return code.co_firstlineno, getattr(code, "co_linetable", None) or code.co_lnotab


def facts(code):
    """Return what the compiler stores in the class that a body makes: {name: value}."""
    return {name: code.co_consts[index] for index, name in _fact_indexes(code).items()}


def knows_line(code):
    """Say whether it is the body of a class that is told on which line it stands."""
    return not code.co_flags & _OPTIMIZED and _FACTS[0] in code.co_names


def _is_fact(code, index):
    return not code.co_flags & _OPTIMIZED and index in _fact_indexes(code)


def _fact_indexes(code):
    """Return {index of a constant: name}; a constant that the body uses otherwise, too, is no fact."""
    found, loaded = {}, []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_NAME" and instruction.argval in _FACTS and loaded:
            found[loaded[-1]] = instruction.argval
        elif instruction.opcode in dis.hasconst:
            loaded.append(instruction.arg)
    return {index: name for index, name in found.items() if loaded.count(index) == 1}
