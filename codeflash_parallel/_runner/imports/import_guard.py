"""Import modules from the slot and never from the user's checkout, and from source where it counts.

`install` makes an editable installation point into the slot, puts a guard in front of all finders, and
gives proven modules a loader that compiles their source and says which bytes those were.
"""

import importlib.machinery
import importlib.util
import os
import sys

from ..paths.path_locations import PathLocations
from ..session import template
from .editable_installs import EditableInstalls, import_again
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
