"""How values tell what they hold: a class may say so itself, and shadow what it holds.

The walk over a value believes what an object gives to be copied. So each way of saying so is noted, once for
a class, and a candidate may have no other ones than the baseline.
"""

import collections
import copyreg
import enum
import hashlib
import pathlib
import re
import sys
import types

from .type_names import type_name

#: Methods that say what an object holds, and others through which that is read.
_TELLING = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")
_READING = ("__getattribute__", "__dict__", "__class__")
#: Methods that give the items of a subclass of a container: only that there are any is noted.
_ITEMS = ("__iter__", "items")

#: Classes of which no more is to be noted, with the names that their data descriptors shadow.
_SEEN = {}
_NOTED = set()
#: Classes may be made by the thousand.
_MOST_SEEN = 10_000


def note(cls):
    """Note how objects of a class tell what they hold."""
    if cls in _SEEN:
        return
    if len(_SEEN) > _MOST_SEEN:
        _SEEN.clear()
    _SEEN[cls] = _shadowing(cls)
    name = type_name(cls)
    reducer = copyreg.dispatch_table.get(cls)
    if reducer is not None and not _is_standard(reducer):
        _NOTED.add("%s: copyreg %s" % (name, _fingerprint(reducer)))
    for method in _TELLING + _READING:
        found = _special(cls, method)
        if found is not None:
            _NOTED.add("%s: %s %s" % (name, method, _fingerprint(found)))
    if not {list, tuple, dict, set, frozenset}.isdisjoint(_mro(cls)):
        _NOTED.update("%s: %s" % (name, method) for method in _ITEMS if _special(cls, method) is not None)


def note_state(cls, state):
    """Note the attributes that are not what one reads under their names: a property stands before them."""
    for name in _SEEN.get(cls, ()):
        if name in state:
            _NOTED.add("%s: %s is shadowed" % (type_name(cls), name))


def noted():
    """Return what was noted, in order."""
    return sorted(_NOTED)


#: As they are, whatever a metaclass says.
_mro, _own = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__


def _special(cls, name):
    """Return what a class has under a name where that is none of the interpreter's own; `None` otherwise."""
    for base in _mro(cls):
        if name in _own(base):
            found = _own(base)[name]
            return None if base in _PLAIN or _is_usual(found) else found
    return None


def _is_usual(found):
    """Say whether it is C code, the standard library's own, or what `dataclass` makes with slots."""
    if type(found) in _OF_C:
        return True
    dataclasses = sys.modules.get("dataclasses")
    made = getattr(dataclasses, "_dataclass_getstate", None)
    return (made is not None and found is made) or _is_standard(found)


#: Attributes of classes that are written in C; they refuse objects of all other classes.
_OF_C = (types.GetSetDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType)
_PLAIN = frozenset(
    {object, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, BaseException}
)


def _shadowing(cls):
    """Return the names of the data descriptors of a class, slots apart."""
    found = set()
    for base in _mro(cls):
        for name, value in list(_own(base).items()):
            kind = type(value)
            if kind not in _STORING and any("__set__" in _own(one) for one in _mro(kind)):
                found.add(name)
    return frozenset(found)


_STORING = frozenset({types.MemberDescriptorType, types.GetSetDescriptorType})


def _fingerprint(found):
    """Return a digest of a method's code, wherever its file lies, and of the module whose globals it uses."""
    if type(found) is not types.FunctionType:
        return type_name(type(found))
    module = sys.modules.get(found.__module__)
    home = found.__module__ if getattr(module, "__dict__", None) is found.__globals__ else "?"
    text = repr((home, _code(found.__code__)))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _code(code):
    constants = [_code(one) if isinstance(one, types.CodeType) else _constant(one) for one in code.co_consts]
    return (code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars)


def _constant(value):
    # A set of constants has no order that lasts.
    return sorted(map(repr, value)) if type(value) is frozenset else repr(value)


def _is_standard(found):
    """Say whether a function is the standard library's own, as it was before code of a project ran."""
    if type(found) is not types.FunctionType or found.__defaults__ or _fingerprint(found) not in _STANDARD:
        return False
    return all(cell.cell_contents is tuple for cell in found.__closure__ or ())  # of named tuples


def _telling(modules):
    """Yield the functions by which classes of some modules say what they hold, and those of `copyreg`."""
    classes = [cls for module in modules for cls in vars(module).values() if isinstance(cls, type)]
    for cls in [*classes, collections.namedtuple("Made", "")]:  # noqa: PYI024 - its methods are the point
        yield from (vars(cls)[name] for name in _TELLING if type(vars(cls).get(name)) is types.FunctionType)
    yield from copyreg.dispatch_table.values()


re.compile("")  # `re` has registered how patterns are copied
_STANDARD = frozenset(map(_fingerprint, _telling((collections, enum, pathlib))))
