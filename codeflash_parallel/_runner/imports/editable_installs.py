"""Point what an editable installation set up at the slot instead of at the user's checkout."""

import contextlib
import importlib
import os
import sys


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
