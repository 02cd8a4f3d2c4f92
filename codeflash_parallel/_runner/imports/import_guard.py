"""Import modules from the slot and never from the user's checkout, and from source where it counts.

`install` makes an editable installation point into the slot, puts a guard in front of all finders, and
gives proven modules a loader that compiles their source and says which bytes those were.
"""

import contextlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys

from ..session import template
from ..slot_paths import PathLocations
from .source_loader import VerifiedSources, restrict_bytecode

_INSTALLED = []

#: Loaders that can be made anew from a path alone.
_PLAIN = (
    importlib.machinery.SourceFileLoader,
    importlib.machinery.SourcelessFileLoader,
    importlib.machinery.ExtensionFileLoader,
)


def install(spec, channel):
    """Install guard, remapping, proof and the bytecode rule; once a process.

    Args:
        spec: the runner's spec.
        channel: where records go.

    Returns:
        The guard.
    """
    if not _INSTALLED:
        _INSTALLED.append(_install(spec, channel))
    return _INSTALLED[0]


def _install(spec, channel):
    places = PathLocations(spec)
    guard = ImportGuard(spec, places, channel)
    guard.allows_bytecode = restrict_bytecode(spec)
    if template() is not None:
        template().watch(guard)
    sys.path[:] = [entry for entry in sys.path if entry != spec["runner"]] + [spec["runner"]]
    dropped = [] if guard.same_tree else EditableInstalls(places, channel).apply()
    sys.meta_path.insert(0, guard)
    import_again(dropped)
    return guard


class ImportGuard:
    """The first finder: calls all others, and lets nothing through that lies in the user's checkout."""

    def __init__(self, spec, places, channel):
        self.spec = spec
        self.places = places
        self.proof = VerifiedSources(spec, places, channel)
        self.allows_bytecode = None
        #: The slot *is* the user's checkout (our own tests, a slot kept to be looked at).
        self.same_tree = os.path.realpath(places.root) in places.user_roots
        self._channel = channel
        self._told = set()
        self._audited = frozenset()

    def stay_first(self):
        """Go back to the front of the finders."""
        if sys.meta_path[0] is not self:
            sys.meta_path[:] = [self, *(finder for finder in sys.meta_path if finder is not self)]

    def find_spec(self, name, path=None, target=None):
        """Find a module through the other finders and look at where it lies."""
        self.stay_first()
        spec = self._ask_others(name, path, target)
        server = template()
        if server is not None and spec is not None and server.imports(self.places, spec):
            # In a fork: the files have changed since.
            spec = self._ask_others(name, path, target)
        if spec is None:
            return None
        spec = self._inside(name, spec)
        loader = self.proof.loader_for(name, spec) if spec.has_location else None
        if loader is not None:
            spec.loader = loader
        return spec

    def _ask_others(self, name, path, target):
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return spec
        return None

    def _inside(self, name, spec):
        locations = spec.submodule_search_locations
        if type(locations) is list and not self.same_tree:
            locations[:] = [self.places.mapped(entry) or entry for entry in locations]
        mapped = self.places.mapped(spec.origin) if spec.has_location else None
        if mapped is None or self.same_tree:
            return spec
        if not os.path.exists(mapped):
            self._tell(name, spec.origin)
            raise ImportError(
                f"{name} would be imported from {spec.origin}, which is outside of the worktree under test "
                f"and has no counterpart in it ({mapped} does not exist)",
                name=name,
                path=spec.origin,
            )
        return self._moved(name, spec, mapped)

    def _moved(self, name, spec, mapped):
        """Return a spec for the same module in the slot."""
        self._channel.write("remapped", **{"from": spec.origin, "to": mapped})
        loader = None if type(spec.loader) in _PLAIN else spec.loader
        if getattr(loader, "path", None) == spec.origin:
            loader.path = mapped
        return importlib.util.spec_from_file_location(
            name, mapped, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )

    def find_distributions(self, *context):
        """Find metadata beside the user's sources that the slot lacks (``*.egg-info``, ignored by git)."""
        if self.same_tree:
            return []
        from importlib.metadata import DistributionFinder, MetadataPathFinder

        name = context[0].name if context else None
        folders = map(self.places.users, sys.path)
        theirs = [folder for folder in folders if folder and os.path.isdir(folder)]
        asked = MetadataPathFinder.find_distributions(DistributionFinder.Context(name=name, path=theirs))
        return [found for found in asked if not self._has_metadata(found)]

    def _has_metadata(self, found):
        inside = self.places.mapped(str(getattr(found, "_path", "")))
        return inside is None or os.path.exists(inside)

    def _tell(self, module, path):
        if module not in self._told:
            self._told.add(module)
            self._channel.write("outside", module=module, path=path)

    def audit(self):
        """Record modules that came from the user's checkout past the guard (another hook was faster)."""
        for name in [name for name in list(sys.modules) if name not in self._audited]:
            file = getattr(sys.modules.get(name), "__file__", None)
            if self.places.mapped(file) is not None and not self.same_tree:
                self._tell(name, file)

    def audit_before_forks(self):
        """Do it now: to look at all modules in each fork would copy the memory in which they lie."""
        self.audit()
        self._audited = frozenset(sys.modules)


class EditableInstalls:
    """Rewrites `sys.path`, ``PYTHONPATH``, the tables of editable finders, and modules imported too early."""

    def __init__(self, places, channel):
        self._places = places
        self._channel = channel
        self._sources = []

    def apply(self):
        """Rewrite everything, and return the names of dropped modules that are to be imported again."""
        sys.path[:] = [self._entry(entry) for entry in sys.path]
        for finder in list(sys.meta_path):
            self._finder(finder)
        for name, module in list(sys.modules.items()):
            if name.startswith("__editable__"):
                self._table(vars(module), "MAPPING")
                self._table(vars(module), "NAMESPACES")
        names = self._drop_modules()
        self._environment()
        sys.path_importer_cache.clear()
        return names

    def _entry(self, entry):
        mapped = self._places.mapped(entry)
        if mapped is None:
            return entry
        self._note(entry, mapped)
        self._sources.append(mapped)
        return mapped

    def _note(self, before, after):
        self._channel.write("remapped", **{"from": before, "to": after})

    def _finder(self, finder):
        # Classes serve as finders, too (setuptools); their tables may be class attributes (editables).
        module = getattr(finder, "__module__", "")
        if module.startswith(("_frozen_importlib", "importlib", __package__.partition(".")[0])):
            return
        for holder in (finder, type(finder)):
            for name, value in list(getattr(holder, "__dict__", {}).items()):
                self._attribute(holder, name, value)

    def _attribute(self, holder, name, value):
        changed = self._rewritten(value)
        if changed is not value:
            # Where it cannot be set, the guard still looks at what the finder finds.
            with contextlib.suppress(AttributeError, TypeError):
                setattr(holder, name, changed)

    def _table(self, namespace, name):
        if isinstance(namespace.get(name), dict):
            namespace[name] = self._rewritten(namespace[name])

    def _rewritten(self, value, depth=0):
        """Return a value with its paths remapped; dicts and lists are changed in place."""
        if isinstance(value, str):
            return self._path(value)
        if depth > 3:
            return value
        if type(value) is dict:
            for key, old in list(value.items()):
                value[key] = self._rewritten(old, depth + 1)
                self._remember(key, old, value[key])
        elif type(value) is list:
            value[:] = [self._rewritten(old, depth + 1) for old in value]
        elif type(value) in (set, frozenset, tuple):
            changed = type(value)(self._rewritten(old, depth + 1) for old in value)
            return value if changed == value else changed
        return value

    def _path(self, path):
        mapped = self._places.mapped(path)
        if mapped is None or not any(os.path.exists(mapped + suffix) for suffix in ("", ".py")):
            return path
        self._note(path, mapped)
        return mapped

    def _remember(self, name, old, new):
        """Note the folder in which a remapped package could be found by the interpreters that tests start."""
        if isinstance(new, str) and new != old:
            place = os.path.dirname(new) if new.endswith("/__init__.py") else new
            stem = os.path.splitext(os.path.basename(place))[0]
            if stem == name:
                self._sources.append(os.path.dirname(place))

    def _drop_modules(self):
        """Forget modules that a .pth file imported from the user's checkout; rewrite namespaces in place."""
        dropped = []
        for name, module in list(sys.modules.items()):
            if self._places.mapped(getattr(module, "__file__", None)) is not None and name != "__main__":
                del sys.modules[name]
                dropped.append(name)
            elif type(getattr(module, "__path__", None)) is list:
                module.__path__ = self._rewritten(module.__path__)
        return dropped

    def _environment(self):
        """Let the interpreters that tests start find the slot's sources first."""
        old = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
        kept = [self._places.mapped(entry) or entry for entry in old]
        entries = list(dict.fromkeys([*self._sources, *kept]))
        if entries != old:
            os.environ["PYTHONPATH"] = os.pathsep.join(entries)


def import_again(names):
    """Import dropped modules anew; what fails now fails again, visibly, where it is needed."""
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            continue
