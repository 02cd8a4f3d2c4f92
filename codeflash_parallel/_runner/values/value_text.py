"""Names of types that no project can forge, and bounded text of values, made without running its code."""

import builtins
import contextlib
import sys
import types


def type_name(cls):
    """Return the dotted name of a type, without running a metaclass' code.

    What calls itself by the name of another type is marked: a name is no identity.
    """
    module = type.__getattribute__(cls, "__module__")
    qualname = type.__dict__["__qualname__"].__get__(cls)
    name = "%s.%s" % (module if isinstance(module, str) else "?", qualname)
    return name + " (another type of that name)" if _is_forged(cls, module, qualname) else name


def _is_forged(cls, module, qualname):
    if module == "builtins":
        return _BUILTINS.get(qualname, cls) is not cls
    found = sys.modules.get(module) if isinstance(module, str) else None
    for part in qualname.split("."):
        found = getattr(found, "__dict__", _NOTHING).get(part) if found is not None else None
    return isinstance(found, type) and found is not cls


#: As they are before any code of the project runs.
_BUILTINS = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
_NOTHING = types.MappingProxyType({})


#: Longest text, in characters.
MAX_TEXT = 2_000
#: Items of one container that are shown, and levels of nesting.
_MAX_ITEMS, _MAX_DEPTH = 100, 6

_ATOMS = frozenset({int, float, bool, type(None), complex, range, type(Ellipsis), type(NotImplemented)})

#: Modules whose own `__repr__` is quick, bounded and honest.
_TRUSTED = frozenset(
    ("decimal", "_decimal", "fractions", "datetime", "uuid", "pathlib", "pathlib._local", "zoneinfo", "re")
)


def render(value, limit=MAX_TEXT):
    """Return a representation of at most `limit` characters; it never raises and never hangs."""
    try:
        text = _text(value, _MAX_DEPTH, limit)
    except Exception as error:
        text = "<%s, not shown: %s>" % (type(value).__name__, type(error).__name__)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def render_arguments(args, kwargs, limit=MAX_TEXT):
    """Return the arguments of a call as they would stand between its parentheses."""
    parts = [render(value, limit) for value in args]
    parts += ["%s=%s" % (name, render(value, limit)) for name, value in kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _text(value, depth, room):
    kind = type(value)
    if kind in _ATOMS:
        return literal(value)
    if kind in (str, bytes, bytearray):
        return repr(value) if len(value) <= room else repr(value[:room]) + "…"
    if depth == 0:
        return "…"
    if kind in _BRACKETS:
        opening, closing = _BRACKETS[kind]
        return opening + _items(value, depth - 1, room) + closing
    if kind is dict:
        texts = ((_text(key, depth - 1, room), _text(item, depth - 1, room)) for key, item in value.items())
        pairs = ("%s: %s" % pair for pair in texts)
        return "{" + ", ".join(_bounded(pairs, len(value), room)) + "}"
    return _object(value, depth - 1, room)


_BRACKETS = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("frozenset({", "})")}


def literal(value):
    """Return the literal of an atom."""
    try:
        return repr(value)
    except ValueError:  # an int beyond sys.set_int_max_str_digits
        return hex(value)


def _items(items, depth, room):
    parts = _bounded((_text(item, depth, room) for item in items), len(items), room)
    if type(items) in (set, frozenset):
        parts.sort()
    return ", ".join(parts) + ("," if type(items) is tuple and len(items) == 1 else "")


def _bounded(texts, count, room):
    """Return texts in a list until there is no more room, and then how many there are."""
    parts, used = [], 0
    for text in texts:
        if len(parts) >= _MAX_ITEMS or used > room:
            return [*parts, "… %d in all" % count]
        parts.append(text)
        used += len(text) + 2
    return parts


def _object(value, depth, room):  # noqa: PLR0911 - one line for each kind
    kind = type(value)
    name = kind.__name__
    if isinstance(value, type):
        return "<class %s.%s>" % (type.__getattribute__(value, "__module__"), value.__name__)
    if kind.__module__ in _TRUSTED:
        return repr(value)
    if "_value2member_map_" in kind.__dict__:
        return "%s.%s" % (name, value._name_)
    if BaseException in kind.__mro__:
        return name + "(" + _items(list(BaseException.args.__get__(value)), depth, room) + ")"
    if hasattr(kind, "__next__") or hasattr(kind, "__code__") or kind.__module__ == "builtins":
        return ("<%s %s" % (name, getattr(value, "__qualname__", ""))).rstrip() + ">"
    for base, content in _CONTENTS:
        if base in kind.__mro__:
            return name + "(" + _text(content(value), depth, room) + ")"
    return _foreign(value, name, room) or name + _attributes(value, depth, room)


def _attributes(value, depth, room):
    held = {}
    for base in type(value).__mro__:
        for name, member in base.__dict__.items():
            if type(member).__name__ == "member_descriptor" and not name.startswith("__"):
                with contextlib.suppress(AttributeError):
                    held.setdefault(name, member.__get__(value))
    with contextlib.suppress(AttributeError):
        held.update(object.__getattribute__(value, "__dict__"))
    texts = ("%s=%s" % (name, _text(item, depth, room)) for name, item in held.items())
    return "(" + ", ".join(_bounded(texts, len(held), room)) + ")"


def _foreign(value, name, room):
    """Show the head of an array or a frame."""
    root = str(type(value).__module__).partition(".")[0]
    if root == "collections" and name == "deque":
        return "deque(%s)" % _text(list(value), 2, room)
    if root == "numpy" and name == "ndarray":
        items = value.ravel()[:20].tolist()
        return "array(%s, shape=%s, dtype=%s)" % (_text(items, 2, room), value.shape, value.dtype)
    if root == "numpy" and hasattr(value, "item"):
        return "%s(%s)" % (name, value)
    return "%s(shape=%s)" % (name, value.shape) if root == "pandas" and hasattr(value, "shape") else ""


#: Subclasses of builtins are shown by what the builtin sees in them.
_CONTENTS = (
    (dict, lambda value: dict(dict.items(value))),
    (list, lambda value: list(list.__iter__(value))),
    (tuple, lambda value: tuple(tuple.__iter__(value))),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
)
