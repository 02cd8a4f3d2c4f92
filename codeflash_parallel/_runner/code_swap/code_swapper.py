"""A template that has collected its tests with the baseline's code; its children swap the targets' code.

Use by a serving guest, in this order:

1. `probe = SwapProbe(spec, guard)` in the process that is on its way to `collected` (the first one with
   ``"until": "collected"``, or the child that becomes such a template), after `import_guard.install`
   and before a target is imported;
2. `ready.update(probe.examine(items))` at the point, before `gc.freeze()`;
3. `probe.apply(spec, channel)` in the child, with the *child's* spec, after "go": it writes the `source`
   records, or raises `SwapRefusal`, whose text is the `why` of the record of that name.

The template's own loads of proven modules write no `source` record: `apply` writes them.

Each module is compiled twice: as it is, which later tells what a candidate changes, and with a counter in the
targets. The code that is live carries the counters until `examine` takes it out of the functions again.
"""

import ast
import contextlib
import hashlib
import os
import sys
import warnings

from ..process import subprocess_watch
from . import code_comparison, code_references, dependency_probe, statement_compiler

#: Exit status of a child that could not swap (EX_TEMPFAIL of sysexits.h).
UNSWAPPABLE_STATUS = 75

#: How many reasons are told.
_MOST_REASONS = 3


class SwapRefusal(Exception):  # noqa: N818 - a fact about the candidate, one clause
    """The candidate cannot be had by swapping code objects."""


class SwapProbe:
    """Watches the targets from before their import until the point, then knows what may be swapped.

    Args:
        spec: the template's spec.
        guard: what `importing.install` returned.
    """

    def __init__(self, spec, guard):
        self._spec, self._proof = spec, guard.proof
        self._targets = {}
        for target in spec.get("targets", ()):
            self._targets.setdefault(target["path"], set()).add(target["qualname"])
        self._loads, self._processes, self._refused, self._early = [], [], {}, set()
        self._counter = dependency_probe.CallCounter(self._targets)
        self._files = {path: os.path.join(spec["root"], path) for path in self._targets}
        self._reading = dependency_probe.CodeReadWatch(self._files).start()
        subprocess_watch.on_process_start(self._processes.append)
        guard.proof.probe = self

    def load(self, loader, name, data):
        """Return the code of a proven module that is being loaded on the way to the point."""
        relative = self._proof.relative(loader.path)
        load = ModuleLoad(loader, name, relative, data, self._targets.get(relative, frozenset()))
        plain, told = compiled(loader, data, self._quiet())
        load.plain, load.warnings = code_comparison.outline(plain, load.targets), told
        live = loader.compiled(data, self._counting if load.targets else self._proof.instrument)
        load.live = code_comparison.outline(live, load.targets)
        self._loads.append(load)
        return live

    def _counting(self, relative, data, path):
        instrument = self._proof.instrument
        tree = instrument(relative, data, path) if instrument is not None else None
        return self._counter.insert(ast.parse(data, path) if tree is None else tree, relative)

    def _quiet(self):
        return None if self._proof.instrument is None else self._proof.instrument.quiet()

    # ---- at the point

    def examine(self, items=()):
        """Stop watching and return the fields of the ready record: "called_early", "swappable", "why".

        Args:
            items: the collected test items of pytest.
        """
        self._proof.probe = None
        self._reading.stop()
        self._early = code_references.take(self._loads, self._files.values())
        for load in self._loads:
            load.note_readers(self._reading.code_readers)
        keys = ((path, name) for path, names in sorted(self._targets.items()) for name in sorted(names))
        refused = ((key, self._objection(key, items)) for key in keys)
        self._refused = {key: why for key, why in refused if why}
        for load in self._loads:
            load.calm()
            load.cut(hooked=self._proof.instrument is not None)
        why = "; ".join(list(dict.fromkeys(self._refused.values()))[:_MOST_REASONS])
        called = sum(self._counter.counts.values())
        return {"called_early": called, "swappable": not self._refused, "why": why}

    def _objection(self, key, items):
        """Return why a target cannot be swapped, one clause; empty if it can."""
        path, qualname = key
        if self._processes:
            return "a process was started before the tests ran (%s)" % self._processes[0]
        if self._counter.counts.get(key):
            return "%s was called while modules were imported or tests collected" % qualname
        if path in self._reading.file_readers:
            return "%s was read at %s" % (path, self._reading.file_readers[path])
        if any(_is_doctest_of(item, self._files[path]) for item in items):
            return "%s has doctests among the collected tests" % path
        loads = [load for load in self._loads if load.relative == path]
        if not loads and self._files[path] in self._early:
            return "%s was imported before anybody watched" % path
        return next(filter(None, (load.objection(qualname) for load in loads)), "")

    # ---- in the child

    def apply(self, spec, channel):
        """Swap the code of the functions that ``spec["swap"]`` names for what the slot's files say now.

        Raises:
            Unswappable: something else differs, too.
        """
        wanted = {}
        for swap in spec["swap"]:
            why = self._refused.get((swap["path"], swap["qualname"]), "")
            if why or swap["qualname"] not in self._targets.get(swap["path"], ()):
                raise SwapRefusal(why or "%s is no target" % swap["qualname"])
            wanted.setdefault(swap["path"], set()).add(swap["qualname"])
        self._refuse_late(spec)
        drafts = [(load, *self._draft(load, wanted.get(load.relative, ()))) for load in self._loads]
        for load, data, outline in drafts:
            load.swap(outline)
            digest = hashlib.sha256(data).hexdigest()
            channel.write("source", path=load.relative, digest=digest, module=load.name)

    def _refuse_late(self, spec):
        """Refuse when a file that is to be proven was loaded without proof: nobody knows which bytes ran."""
        unknown = set(spec.get("prove", ())).difference(load.relative for load in self._loads)
        for module in list(sys.modules.values()) if unknown else ():
            path = self._proof.relative(getattr(module, "__file__", None))
            if path in unknown:
                raise SwapRefusal("%s was imported before the fork" % path)

    def _draft(self, load, wanted):
        """Return the bytes that a module's file has now and the outline of their code."""
        try:
            data = load.loader.get_data(load.loader.path)
            outline = load.outline_of(data, wanted) or self._whole(load, data, wanted)
        except SwapRefusal as error:
            raise SwapRefusal("%s: %s" % (load.relative, error)) from None
        except Exception as error:
            raise SwapRefusal("%s cannot be compiled (%s)" % (load.relative, error)) from None
        why = load.objection_to_lines(outline)
        if why:
            raise SwapRefusal("%s: %s" % (load.relative, why))
        return data, outline

    def _whole(self, load, data, wanted):
        """Compile a whole module and return the outline of its code."""
        code, told = compiled(load.loader, data, self._quiet())
        why = code_comparison.difference(load.plain[0][1], code, wanted)
        if why or told != load.warnings:
            raise SwapRefusal(why or "compiling it gives other warnings")
        return code_comparison.outline(code, load.targets)


def _is_doctest_of(item, path):
    kinds = {cls.__name__ for cls in type(item).__mro__}
    return "DoctestItem" in kinds and str(getattr(item, "path", None) or item.fspath) == path


def compiled(loader, data, instrument):
    """Return the code of some bytes, and the warnings that compiling them gave (without their lines)."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        code = loader.compiled(data, instrument)
    return code, sorted("%s: %s" % (warning.category.__name__, warning.message) for warning in told)


class ModuleLoad:
    """One load of a module: its bytes, its code, and who has this code.

    Attributes:
        plain, live: outlines of the code as the bytes say and as it was executed; indexes agree.
        warnings: what compiling the bytes warned of.
        functions: weak references to the functions of each code, by index.
        classes: weak references to the classes that a body made, by index.
        stuck: why a code has other holders than functions, by index.
    """

    def __init__(self, loader, name, relative, data, targets):
        self.loader, self.name, self.relative, self.data, self.targets = loader, name, relative, data, targets
        self.functions, self.classes, self.stuck = {}, {}, {}
        self._pieces = None

    def note_readers(self, readers):
        """Note which code was read, and where: what it says of its lines may be kept."""
        for index, (name, _) in enumerate(self.live):
            if (self.relative, name) in readers:
                place = readers[self.relative, name]
                self.stuck.setdefault(index, "the code of %s was read at %s" % (name, place))

    def objection(self, qualname):
        """Return why a target's code cannot be swapped, as far as this load tells."""
        unlike = code_comparison.difference(self.plain[0][1], self.live[0][1], self.targets)
        if unlike:
            return "an import hook compiles %s differently each time: %s" % (self.relative, unlike)
        decorated = dependency_probe.decorated(self.data, self.loader.path, qualname)
        if decorated:
            return "%s: %s" % (qualname, decorated)
        indexes = [index for index, (name, _) in enumerate(self.live) if name == qualname]
        whys = (self.stuck.get(index) for index in indexes)
        return next(filter(None, whys), "" if indexes else "%s is not in the compiled module" % qualname)

    def calm(self):
        """Take the counters out of the functions."""
        for index, (_, code) in enumerate(self.plain):
            if self.live[index][0] in self.targets:
                self._give(index, code)

    def cut(self, *, hooked):
        """Prepare for compiling what a candidate changes, and no more."""
        # Who holds the module's own code sees its lines, which are those of the whole.
        if 0 not in self.stuck and self.loader.is_plain():
            with contextlib.suppress(Exception):  # a definition that is none by itself
                self._pieces = statement_compiler.TargetStatements(
                    self.data, self.plain, self.targets, hooked=hooked
                )

    def outline_of(self, data, wanted):
        """Return the outline of the code that some bytes give; None if the whole has to be compiled."""
        return None if self._pieces is None else self._pieces.outline(data, wanted)

    def objection_to_lines(self, outline):
        """Return why a change of lines cannot be carried through, empty if it can."""
        for index, why in self.stuck.items():
            if code_comparison.lines(self.plain[index][1]) != code_comparison.lines(outline[index][1]):
                return "lines move, and " + why
        return ""

    def swap(self, outline):
        """Give all functions the code of another outline, where it differs or is a target's."""
        for index, (name, code) in enumerate(outline):
            before = self.plain[index][1]
            if name in self.targets or code_comparison.lines(before) != code_comparison.lines(code):
                self._give(index, code)
                self._tell_classes(index, before, code)

    def _give(self, index, code):
        for reference in self.functions.get(index, ()):
            function = reference()
            if function is not None:
                function.__code__ = code
                if function.__code__ is not code:
                    raise SwapRefusal("a function kept its code: %s" % code.co_name)

    def _tell_classes(self, index, before, code):
        for reference in self.classes.get(index, ()):
            cls = reference()
            for name, value in code_comparison.facts(code).items() if cls is not None else ():
                if cls.__dict__.get(name) == code_comparison.facts(before).get(name):
                    type.__setattr__(cls, name, value)
