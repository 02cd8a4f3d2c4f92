"""How values tell what they hold: a class may say so itself, and shadow what it holds.

The walk over a value believes what an object gives to be copied. So each way of saying so is noted, once for
a class, and a candidate may have no other ones than the baseline.
"""

import copyreg
import hashlib
import sys
import types

from .naming import type_name

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
    if reducer is not None:
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
    """Say whether it is the attribute of every class, or what `dataclass` makes where there are slots."""
    dataclasses = sys.modules.get("dataclasses")
    made = getattr(dataclasses, "_dataclass_getstate", None)
    return type(found) is types.GetSetDescriptorType or (made is not None and found is made)


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
