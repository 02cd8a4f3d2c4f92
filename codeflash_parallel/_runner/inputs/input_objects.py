"""Objects in inputs: expectations of code about parameters, constructors of classes, objects of other calls.

An attribute that a constructor computes from its arguments must not be changed by itself: no call would
ever see such an object. Which attributes are arguments, and which are computed, is found out by making
observed objects again. In a crossover of two calls an object takes the place of one of a class that was
seen there, or, where several classes were seen, of their nearest common base.
"""

import ast
import copy
import functools
import inspect
import sys
import textwrap
import types
from collections import namedtuple

_CONTAINERS = (list, tuple, set, frozenset, dict)


def answer(*args, **kwargs):
    """Stand in for a callable: give the last argument back if it is a container, and a text for all else."""
    given = (*args, *kwargs.values())
    return given[-1] if given and isinstance(given[-1], _CONTAINERS) else "x"


#: Callables that take any arguments; what the second one returns is false.
ANSWERS = (answer, "".format)


@functools.cache
def parsed(function):
    """Return the tree of a function and the name of its first parameter; (None, "") where there is none."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        return tree, tree.args.args[0].arg
    except (OSError, TypeError, ValueError, SyntaxError, AttributeError, IndexError):  # made at run time
        return None, ""


def empties(function):
    """Return the names of which a function asks whether they are true, and attributes of its first parameter.

    Such a name is expected to be empty at times. Attributes are named as `.name`.
    """
    own = parsed(function)[1] if isinstance(function, types.FunctionType) else ""
    return {
        getattr(part, "id", None) or "." + part.attr
        for node in _nodes(function)
        for part in _truths(node)
        if isinstance(part, ast.Name) or (isinstance(part, ast.Attribute) and _is_named(part.value, own))
    }


def callees(function):
    """Return the names that a function calls."""
    calls = (node.func for node in _nodes(function) if isinstance(node, ast.Call))
    return {called.id for called in calls if isinstance(called, ast.Name)}


def _nodes(function):
    tree = parsed(function)[0] if isinstance(function, types.FunctionType) else None
    return list(ast.walk(tree)) if tree is not None else []


def _is_named(node, name):
    return isinstance(node, ast.Name) and node.id == name


def _truths(node):
    """Return the expressions of which a node asks whether they are true."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.operand] if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else []


#: Observed objects of one class that are made again.
_MOST_MADE = 20
#: Of classes that are no builtins.
_HEAP_TYPE = 1 << 9


class ObjectConstructors:
    """Constructors of observed objects, as far as they are known.

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
            except AttributeError:  # an empty slot
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


#: Objects that are looked at, in one call and in all; a call that has more of them stays as it is.
_MOST_PARTS, _MOST_IN_ALL = 1_000, 20_000
#: Python 3.9 has no list of them: the modules whose classes are met most.
_USUAL = ("abc", "collections", "datetime", "enum", "pathlib", "re", "typing")
_STANDARD = getattr(sys, "stdlib_module_names", _USUAL)


#: An object inside arguments, what holds it, and the class and attribute of that.
_Part = namedtuple("_Part", "place holder value")  # noqa: PYI024 - typing is slow to import


class Crossover:
    """Knows the objects inside observed calls.

    Args:
        observed: (args, kwargs) of each call.
    """

    def __init__(self, observed):
        self._kinds, self._parts = {}, []
        for call in observed:
            for part in _parts(call):
                self._kinds.setdefault(part.place, set()).add(type(part.value))
                self._parts.append(part)
            if len(self._parts) > _MOST_IN_ALL:
                break

    def crossed(self, call, chance):
        """Return a call with one object in it replaced, or None where there is none.

        Args:
            call: (args, kwargs); it is copied.
            chance: source of everything drawn.
        """
        parts = _parts(call)
        if not parts:
            return None
        part = _drawn(parts, lambda one: (*_name_of(one.place[0]), one.place[1]), chance)
        fits = _fits(self._kinds.get(part.place, {type(part.value)}))
        others = [one for one in self._parts if issubclass(type(one.value), fits)]
        if not others:
            return None
        other = _drawn(others, lambda one: _name_of(type(one.value)), chance)
        # What knows its holder would stand in one that it does not know.
        if any(_is_within(one.holder, one.value) for one in (part, other)):
            return None
        return copy.deepcopy(call, {id(part.value): copy.deepcopy(other.value)})


def _drawn(parts, key, chance):
    """Return one of some parts: first the key, so that rare ones are drawn as often as common ones."""
    wanted = chance.choice(sorted({key(part) for part in parts}))
    return chance.choice([part for part in parts if key(part) == wanted])


def _name_of(kind):
    return kind.__module__, kind.__qualname__


def _fits(kinds):
    """Return the classes that may stand in a place where some were seen."""
    if len(kinds) == 1:
        return tuple(kinds)
    first, *others = [kind.__mro__ for kind in kinds]
    common = (base for base in first if _is_own(base) and all(base in other for other in others))
    return next(((base,) for base in common), tuple(kinds))


def _is_own(kind):
    """Return whether a class is none of the standard library's."""
    top = str(kind.__module__).partition(".")[0]
    return bool(kind.__flags__ & _HEAP_TYPE) and top not in _STANDARD


def _parts(call):
    """Return the objects inside arguments, each behind what holds it and the class and attribute of that."""
    args, kwargs = call
    found, seen = [], set()
    left = [(None, None, value) for value in (*args, *kwargs.values())]
    while left and len(seen) < _MOST_PARTS:
        place, holder, value = left.pop()
        if id(value) in seen:
            continue
        if type(value) in _CONTAINERS:
            left += [(place, holder, item) for item in (value.values() if type(value) is dict else value)]
        elif _is_object(value):
            if place is not None:
                found.append(_Part(place, holder, value))
            left += [((type(value), name), value, part) for name, part in _open(value)]
        else:
            continue
        seen.add(id(value))
    return [] if left else found


def _open(value):
    """Return the settable public attributes of an object, with their names."""
    return [(name, part) for name, part in attributes(value).items() if _is_open(type(value), name)]


def _is_open(kind, name):
    # What a descriptor keeps in the object, as a cached property does, follows from the rest of it.
    static = inspect.getattr_static(kind, name, None)
    return name[:1] != "_" and (type(static) is types.MemberDescriptorType or not hasattr(static, "__get__"))


def _is_object(value):
    return _is_own(type(value)) and not isinstance(value, (type, BaseException))


def _is_within(holder, part):
    """Return whether an object can be reached from another one, or so much can that it may be."""
    seen, left = set(), [part]
    while left:
        value = left.pop()
        if value is holder or len(seen) > _MOST_PARTS:
            return True
        if id(value) in seen:
            continue
        seen.add(id(value))
        if type(value) in _CONTAINERS:
            left += value.values() if type(value) is dict else value
        elif _is_object(value):
            left += attributes(value).values()
    return False
