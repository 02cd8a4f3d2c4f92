"""Paths of the slot, of the user's checkout and of the environment, and their translation between slots.

A call that was captured in one slot is made again in others. In texts that are compared, and in pickles, a
word stands for the slot's folders; no value can hold it there.
"""

import io
import os
import pickle
import site
import sys
import sysconfig
from os.path import normpath
from pathlib import PurePath


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


#: (path, word), the longest path first.
_PLACES = []
#: The same for the folders that hold the slot's: what `..` is. They stand in no input.
_PARENTS = []
#: What a word in an input stands for.
_OWN = {}
#: The places as they stand in the texts of values: as part of a string, and as the parts of a path.
_NEEDLES = []
#: Words of pickles that may hold such a path, in whole or in parts.
_MARKS = []
#: What is before the name of a run in the paths of its slots, as it stands in a pickle.
_STEMS = []
_SLOT, _PRIVATE = "\0slot\0", "\0private\0"
_SLOT_BYTES, _PRIVATE_BYTES = _SLOT.encode(), _PRIVATE.encode()


def settle(spec):
    """Take the folders of this process' slot for the ones that are meant.

    Temporary files of a test are gone in all slots: an input that names one names a file that is not there.
    """
    private = spec["private"]
    _OWN.update({_SLOT: spec["root"], _PRIVATE: private[:-1] + ("-" if private[-1] == "_" else "_")})
    places = dict.fromkeys((*both_forms(private), _OWN[_PRIVATE]), _PRIVATE)
    places.update((form, _SLOT) for form in both_forms(spec["root"]))
    _PLACES[:] = sorted(places.items(), key=_length)
    above = os.path.commonpath([spec["root"], private])
    slots = os.path.dirname(os.path.dirname(above))
    _STEMS[:] = [os.fsencode(form) + b"/" for form in both_forms(slots) if form.strip("/")]
    words = {above: "\0above\0", os.path.dirname(above): "\0run\0"} if _STEMS else {}
    parents = [(form, word) for path, word in words.items() for form in both_forms(path)]
    _PARENTS[:] = sorted(parents, key=_length)
    _NEEDLES[:] = [needle for place in (*_PLACES, *_PARENTS) for needle in _as_written(*place)]
    _MARKS[:] = {max(path.split("/"), key=len).encode("utf-8", "surrogatepass") for path in places}


def _length(place):
    return -len(place[0])


def _as_written(path, word):
    parts = ", ".join(map(repr, PurePath(path).parts))
    # Bytes are written otherwise where there are letters beyond ASCII.
    texts = dict.fromkeys((repr(path)[1:-1], repr(os.fsencode(path))[2:-1], parts))
    return [(text, word) for text in texts]


def neutral(text):
    """Return the text of a value with words in the place of the slot's folders."""
    if "/" not in text:  # which every needle has
        return text
    for needle, word in _NEEDLES:
        if needle in text:
            text = text.replace(needle, word)
    return text


def neutral_bytes(data):
    """Return output with words in the place of the slot's folders."""
    for path, word in (*_PLACES, *_PARENTS):
        data = data.replace(os.fsencode(path), word.encode())
    return data


def neutral_value(value):
    """Return a text or bytes with words in the place of the slot's folders."""
    if type(value) is not str:
        return neutral_bytes(value)
    value = _template(value)
    for path, word in _PARENTS:
        value = value.replace(path, word)
    return value


def is_marked(blob):
    """Say whether a pickle may hold a path of the slot."""
    return any(mark in blob for mark in _MARKS)


def names_a_part(blob):
    """Say whether a pickle holds a part of a slot's path, cut or changed: in other slots it is another's."""
    return any(stem in blob for stem in _STEMS)


def is_amid(text):
    """Say whether a path of the slot stands behind a sign of a path: what is made of that is another."""
    signs = [text[at - 1] for at in (text.find(path) for path, _ in _PLACES) if at > 0]
    return any(sign.isalnum() or sign in "._-~/" for sign in signs)


def pickled_as(value):
    """Return what stands in a pickle for a text or path of the slot; `None`: it stands for itself."""
    kind = type(value)
    if kind is str:
        template = _template(value)
        return None if template == value else ("text", template)
    if kind is bytes:
        template = os.fsencode(_template(os.fsdecode(value)))
        return None if template == value else ("bytes", template)
    if isinstance(value, PurePath):
        template = _template(str(value))
        return None if template == str(value) else ("path", kind, template)
    return None


def _template(text):
    for path, word in _PLACES:
        text = text.replace(path, word)
    return text


def load(blob):
    """Unpickle, with paths of this process' slot where they are of the one that was pickled in."""
    return loader(blob)(blob)


def loader(blob):
    """Return what unpickles such bytes: `pickle` itself where they hold no path of a slot."""
    return _load_placed if _SLOT_BYTES in blob or _PRIVATE_BYTES in blob else pickle.loads


def _load_placed(blob):
    return _Unpickler(io.BytesIO(blob)).load()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid):
        """Return what `pickled_as` has replaced."""
        *kind, template = pid
        if kind == ["bytes"]:
            return os.fsencode(_filled(os.fsdecode(template)))
        return _filled(template) if kind == ["text"] else kind[1](_filled(template))


def _filled(template):
    for word, path in _OWN.items():
        template = template.replace(word, path)
    return template
