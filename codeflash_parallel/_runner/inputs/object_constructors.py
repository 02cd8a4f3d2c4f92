"""Constructors of observed classes: they make an object again with another attribute.

An attribute that the constructor computes from its arguments must not be changed by itself: no call would
ever see such an object. Which attributes are arguments, and which are computed, is found out by making
observed objects again.
"""

import ast
import functools
import inspect

from .parameter_expectations import empties, parsed

#: Observed objects of one class that are made again.
_MOST_MADE = 20
#: Of classes that are no builtins.
_HEAP_TYPE = 1 << 9


class ObjectConstructors:
    """What is known of the constructors of observed objects.

    Args:
        values: observed, of any types.
    """

    def __init__(self, values):
        self._values, self._known = values, {}

    def changed(self, value, name, new):
        """Return an object with another value of one attribute, and whether its class may make such a one.

        The given object stays as it is where it can be copied: a cache of the project may hold it.

        Raises:
            Exception: whatever the constructor raises.
        """
        kind = type(value)
        if kind not in self._known:
            self._known[kind] = self._learned(kind)
        parameters, computed = self._known[kind] or ({}, frozenset())
        if name in computed:
            return value, True
        if name not in parameters.values():
            made = _copied(value)
            object.__setattr__(made, name, new)
            return made, self._known[kind] is not None
        held = attributes(value)
        made = _made(kind, parameters, {**held, name: new})
        # What is no longer as the constructor made it is what calls have left there.
        for other in held.keys() - _same(kind, parameters, held) - set(parameters.values()):
            object.__setattr__(made, other, held[other])
        return made, True

    def _learned(self, kind):
        """Return a class's parameters by the attributes that hold them, and what its constructor computes.

        None where it takes what no attribute holds, or where another method makes the objects.
        """
        own = {name for base in kind.__mro__ if base.__flags__ & _HEAP_TYPE for name in vars(base)}
        if "__new__" in own:
            return None
        if "__init__" not in own:
            return {}, frozenset()
        objects = [value for value in self._values() if type(value) is kind][:_MOST_MADE]
        computed = None
        try:
            parameters = _parameters(kind, objects[0])
            if not parameters:  # what it begins with is computed from nothing
                return {}, frozenset()
            for value in objects:
                same = _same(kind, parameters, attributes(value))
                computed = same if computed is None else computed & same
        except Exception:  # there are none, or its own code objects
            return None
        return parameters, frozenset(computed).difference(parameters.values())


def made_again(kind, value):
    """Return an object that a class's constructor makes of what an observed one was made of.

    Raises:
        Exception: no attribute of the object holds a parameter, or whatever the constructor raises.
    """
    return _made(kind, _parameters(kind, value), attributes(value))


def attributes(value):
    """Return all attributes that an object holds itself, by name."""
    found = dict(getattr(value, "__dict__", ()))
    for base in type(value).__mro__:
        names = vars(base).get("__slots__", ())
        for name in (names,) if type(names) is str else names:
            is_private = name[:2] == "__" and name[-2:] != "__"
            full = "_%s%s" % (base.__name__.lstrip("_"), name) if is_private else name
            try:
                found[full] = object.__getattribute__(value, full)
            except AttributeError:  # nobody has filled it
                continue
    return found


def _copied(value):
    """Return an object with the same attributes, or the same one where only a builtin type makes such."""
    try:
        made = object.__new__(type(value))
    except TypeError:
        return value
    for name, part in attributes(value).items():
        object.__setattr__(made, name, part)
    return made


def _parameters(kind, value):
    """Return the names of a constructor's parameters with those of the attributes that hold them.

    Raises:
        ValueError: none holds one that has no default.
    """
    held, found, kept = attributes(value), {}, _kept(kind.__init__)
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        holder = next((one for one in (kept.get(name), name, "_" + name) if one in held), None)
        if holder is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            found[name] = holder
        elif parameter.default is parameter.empty and parameter.kind not in _ANY:
            raise ValueError(name)
    return found


def empty_attributes(kind):
    """Return the attributes, each as `.name`, of which a class's constructor tests whether they are empty."""
    if "__init__" not in vars(kind):
        return set()
    kept = _kept(kind.__init__)
    return {name if name[:1] == "." else "." + kept.get(name, name) for name in empties(kind.__init__)}


@functools.cache
def _kept(function):
    """Return the attributes to which a constructor assigns its parameters as they are, by parameter."""
    tree, own = parsed(function)
    if tree is None:
        return {}
    pairs = [(node.value, node.targets[0]) for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return {
        value.id: target.attr
        for value, target in reversed(pairs)
        if isinstance(value, ast.Name) and isinstance(target, ast.Attribute)
        if isinstance(target.value, ast.Name) and target.value.id == own
    }


_ANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _made(kind, parameters, held):
    return kind(**{name: held[holder] for name, holder in parameters.items()})


def _same(kind, parameters, held):
    """Return the names of the attributes that are as the constructor makes them."""
    made = attributes(_made(kind, parameters, held))
    return {name for name, part in held.items() if name in made and _is_same(part, made[name])}


def _is_same(one, other):
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # an __eq__ of the project
        return False
