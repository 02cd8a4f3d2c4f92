"""Paths of the slot, of the user's checkout, and of the interpreter's environment."""

import os
import site
import sys
import sysconfig
from os.path import normpath


class PathLocations:
    """Maps paths of the user's checkout to the slot.

    What the interpreter needs (its prefixes and site-packages) is never the user's checkout, even when a
    virtual environment lies inside it.
    """

    def __init__(self, spec):
        self.root = spec["root"]
        self.user_roots = both_forms(spec["user_root"])
        ours = [*both_forms(self.root), *both_forms(spec["runner"]), *both_forms(spec["private"])]
        self._environment = environment(self.user_roots)
        self._kept = tuple(ours + self._environment)
        self._roots = both_forms(self.root)
        self._by_folder = {}

    def mapped(self, path):
        """Return what a path of the user's checkout is called in the slot; None when it is no such path."""
        if not isinstance(path, str) or not path.startswith("/"):
            return None
        folder, _, name = path.rpartition("/")
        if folder not in self._by_folder:
            self._by_folder[folder] = self._map(folder)
        mapped = self._by_folder[folder]
        if mapped is None:
            # The path may be the checkout itself, or a link to something in it.
            return self._map(path) if path in self.user_roots else None
        return None if self._is_kept(path) else _unless_packages(mapped + "/" + name)

    def _map(self, folder):
        for form in both_forms(folder or "/"):
            if self._is_kept(form):
                return None
            for user_root in self.user_roots:
                if under(form, user_root):
                    return self.root + form[len(user_root) :]
        return None

    def _is_kept(self, path):
        return any(under(path, kept) for kept in self._kept)

    def users(self, path):
        """Return what a path of the slot is called in the user's checkout; None when it is no such path."""
        for root in self._roots:
            if isinstance(path, str) and under(path, root):
                return self.user_roots[0] + path[len(root) :]
        return None

    def in_tree(self, path):
        """Say whether a path lies in the slot, and not in an environment inside it."""
        if not isinstance(path, str) or self.relative(path) is None:
            return False
        return not any(under(path, kept) for kept in self._environment)

    def relative(self, path):
        """Return a path of the slot relative to its root, else None."""
        for root in self._roots:
            if isinstance(path, str) and under(path, root) and path != root:
                return normpath(path[len(root) + 1 :])
        return None


def _unless_packages(mapped):
    # Another environment's packages, found through a .pth file: an environment as well, unless they are part
    # of the snapshot.
    is_packages = "/site-packages" in mapped or "/dist-packages" in mapped
    return None if is_packages and not os.path.exists(mapped) else mapped


def environment(user_roots):
    """Return the folders that belong to the interpreter."""
    prefixes = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}
    # A prefix that holds the checkout (or is it) would swallow it: then only its library folders count.
    kept = {p for p in prefixes if not any(under(root, p) for root in user_roots)}
    kept.update(sysconfig.get_paths().values())
    kept.update(getattr(site, "getsitepackages", list)())
    kept.add(getattr(site, "USER_SITE", None) or "")
    folders = {form for folder in kept if folder for form in both_forms(folder)}
    # On some layouts `data` and `scripts` are the prefix itself.
    return [folder for folder in folders if not any(under(root, folder) for root in user_roots)]


def both_forms(path):
    """Return a path as it is written and, when that is another one, with symbolic links resolved."""
    written = os.path.normpath(path)
    real = os.path.realpath(path)
    return [written] if real == written else [written, real]


def under(path, folder):
    """Say whether a path is a folder or lies below it."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")
