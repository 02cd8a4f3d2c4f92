"""Find out who holds the code objects of some modules: functions, classes that a body made, and others."""

import gc
import os
import sys
import types
import weakref

from . import code_comparison

#: Whether classes know the line they begin on.
_CLASSES_KNOW_LINES = sys.version_info >= (3, 13)

_namespace_of = type.__dict__["__dict__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


class ReferenceControl:
    """A module like the others with one function, whose code nobody else holds: what to compare with."""

    def __init__(self):
        code = compile("def function(): pass", "<control>", "exec")
        self.live = code_comparison.outline(code, ())
        self._namespace = {}
        exec(code, self._namespace)

    def references(self):
        """Return how many references the code has, besides its function's."""
        return references(self.live, 1) - 1


def references(outline, index):
    """Return how many references one code of an outline has."""
    return sys.getrefcount(outline[index][1])


def take(loads, files=()):
    """Fill the `functions`, `classes` and `stuck` of some loads; whoever is frozen is seen as well.

    Returns:
        The files, of those of the loads and some more, from which there are functions that no load has made.
    """
    gc.unfreeze()  # a project may have frozen what it holds, and the collector names nobody who is
    strangers = _functions(*_places(loads), {load.loader.path for load in loads}.union(files))
    if _CLASSES_KNOW_LINES:
        _classes(loads)
    alone = ReferenceControl().references()
    for load in loads:
        _judge(load, strangers, alone)
    return {file for file, _ in strangers}


def made_from(files):
    """Return the name of a function from one of some files (their real paths); empty if there is none."""
    gc.unfreeze()
    names = {os.path.basename(file) for file in files}
    functions = (thing for thing in gc.get_objects() if type(thing) is types.FunctionType)
    for code in (function.__code__ for function in functions):
        path = code.co_filename
        if os.path.basename(path) in names and os.path.realpath(path) in files:
            return code.co_name
    return ""


def _places(loads):
    """Return which load and index a code has, by identity: and those of what lies inside targets."""
    places, insides = {}, {}
    for load in loads:
        for index, (name, code) in enumerate(load.live):
            places[id(code)] = load, index
            for _, inner in code_comparison.outline(code, ())[1:] if name in load.targets else ():
                insides[id(inner)] = load, index
    return places, insides


def _functions(places, insides, files):
    """Note the functions of known codes; return where codes of the same files begin that are not known."""
    strangers = set()
    for thing in gc.get_objects():
        if type(thing) is not types.FunctionType:
            continue
        code = thing.__code__
        if id(code) in places:
            load, index = places[id(code)]
            load.functions.setdefault(index, []).append(weakref.ref(thing))
        elif id(code) in insides:
            load, index = insides[id(code)]
            load.stuck[index] = "a function made by %s is there already" % load.live[index][0]
        elif code.co_filename in files:
            strangers.add((code.co_filename, code.co_firstlineno))
    return strangers


def _classes(loads):
    bodies = {}
    for load in loads:
        for index, (name, code) in enumerate(load.live):
            line = code_comparison.facts(code).get("__firstlineno__")
            if line is not None:
                bodies[load.name, name, line] = load, index
    for thing in gc.get_objects():
        # Not `isinstance`, which asks the object for its class: that may be code of the project.
        if issubclass(type(thing), type):
            own = _namespace_of(thing)
            found = bodies.get((own.get("__module__"), _qualname_of(thing), own.get("__firstlineno__")))
            if found is not None:
                found[0].classes.setdefault(found[1], []).append(weakref.ref(thing))


def _judge(load, strangers, alone):
    # Counted before any name here refers to a code.
    counts = [references(load.live, index) for index in range(len(load.live))]
    for index, (name, code) in enumerate(load.live):
        others = counts[index] - len(load.functions.get(index, ()))
        if others > alone:
            load.stuck[index] = "something besides functions holds the code of %s" % (name or "the module")
        elif name and (code.co_filename, code.co_firstlineno) in strangers:
            load.stuck[index] = "there are copies of the code of %s" % name
