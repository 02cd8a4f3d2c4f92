"""Candidates of `xmlschema_as_dict`: the part of a dictionary whose names are of one namespace."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, insert_before, replace_function, substitute

PATH = "xmlschema/namespaces.py"
TARGET = "NamespaceView.as_dict"


def _with(source: str) -> Callable[[Sources], dict[str, str]]:
    """Give the target another body."""
    return lambda sources: {PATH: replace_function(sources.base(PATH), TARGET, source)}


def _change(old: str, new: str, count: int = 1) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), old, new, count)}


def _prefix(sources: Sources) -> dict[str, str]:
    """Names without a namespace go the old way, which is kept as another method."""
    text = sources.base(PATH)
    text = substitute(text, "def as_dict(self, fqn_keys=False):", "def _matched(self, fqn_keys=False):")
    return {PATH: insert_before(text, "NamespaceView._matched", PREFIX)}


PREFIX = """
def as_dict(self, fqn_keys=False):
    namespace = self.namespace
    if not namespace or '}' in namespace:
        return self._matched(fqn_keys)
    prefix = '{%s}' % namespace
    if fqn_keys:
        return {k: v for k, v in self.target_dict.items() if k.startswith(prefix)}
    return {k[k.rindex('}') + 1:]: v for k, v in self.target_dict.items() if k.startswith(prefix)}
"""

# One look-up a name, without the calls of get_namespace().
HOISTED = """
def as_dict(self, fqn_keys=False):
    namespace = self.namespace
    match = NAMESPACE_PATTERN.match
    found = {}
    for name, value in self.target_dict.items():
        got = match(name) if name and name[0] == '{' else None
        if namespace == (got.group(1) if got else ''):
            if not fqn_keys and name[0] == '{':
                name = name[name.rindex('}') + 1:]
            found[name] = value
    return found
"""


def _hoisted(sources: Sources) -> dict[str, str]:
    text = replace_function(sources.base(PATH), TARGET, HOISTED)
    imported = "from .helpers import get_namespace, local_name\n"
    return {PATH: substitute(text, imported, "from .helpers import NAMESPACE_PATTERN, local_name\n")}


# The names of no namespace are lost.
NO_EMPTY = """
def as_dict(self, fqn_keys=False):
    prefix = '{%s}' % self.namespace
    start = 0 if fqn_keys else len(prefix)
    return {k[start:]: v for k, v in self.target_dict.items() if k.startswith(prefix)}
"""

KEPT = """
def as_dict(self, fqn_keys=False):
    kept = self.__dict__.setdefault('_kept', {})
    if fqn_keys not in kept:
        kept[fqn_keys] = {
            k if fqn_keys or k[0] != '{' else k[k.rindex('}') + 1:]: v
            for k, v in self.target_dict.items()
            if self.namespace == get_namespace(k)
        }
    return kept[fqn_keys]
"""

NO_FQN = """
def as_dict(self, fqn_keys=False):
    return {local_name(k): v for k, v in self.target_dict.items() if self.namespace == get_namespace(k)}
"""

GROUPED = """
def as_dict(self, fqn_keys=False):
    names = {get_namespace(k): [] for k in self.target_dict}
    for k in self.target_dict:
        names[get_namespace(k)].append(k)
    mine = names.get(self.namespace, [])
    return {k if fqn_keys or k[0] != '{' else k[k.rindex('}') + 1:]: self.target_dict[k] for k in mine}
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_slices": lambda sources: sources.upstream(0),
    "prefix": _prefix,
    "hoisted": _hoisted,
    "substring": _change(
        "                if self.namespace == get_namespace(k)\n",
        "                if self.namespace in k and get_namespace(k).startswith(self.namespace)\n",
        2,
    ),
    "no_empty": _with(NO_EMPTY),
    "kept": _with(KEPT),
    "no_fqn": _with(NO_FQN),
    "grouped": _with(GROUPED),
    "swapped": _change("if self.namespace == get_namespace(k)", "if get_namespace(k) == self.namespace", 2),
}
