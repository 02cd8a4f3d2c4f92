"""Canonical digests of Python values: equal values, equal digests; in any process, under any hash seed.

A value is walked once (without recursion, deep structures are common) and written as text in the grammar of
Python's literals; what has no literal is ``<type ...>``. Three texts come out: the full one, one with floats
masked, and one in which types are unified by value (1, 1.0 and True; lists, tuples and iterators). Mutable
objects are numbered as they are met, so aliasing and cycles show; no address ever enters, and no ``__eq__``,
``__hash__`` or ``__repr__`` of the project is called.
"""

import base64
import struct
from collections import namedtuple
from hashlib import blake2b

from ..slot_paths import neutral, neutral_value
from .object_reduction import UnencodableValue
from .type_handlers import EXHAUST, Spent, handler_of
from .value_text import literal, render, type_name

#: A value walked longer than this is no longer quick to encode (objects cost 5 µs a part).
MAX_NODES = 300_000

#: And of one that is known in part only, no more than these are looked at once that is known.
MAX_FURTHER = 10_000

#: Longer texts and bytes are written as their digest: literals of megabytes took half of the time of a check.
LONG = 1 << 16

#: Types whose literal is injective, typed, and free of other types.
_EXACT = frozenset({int, str, bytes, type(None)})
_FLAT = _EXACT | {float, bool}
_TEXTS = frozenset({str, bytes})


def digest_of(text):
    """Return the digest of a text."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Walk:
    """One walk over one or more values.

    `full` and `less` are the texts so far, `mask` replaces parts of `full`, `memo` numbers mutable objects.
    `above` is the walk that an item of a set belongs to, or None: what that has met is not walked again.
    A `lenient` walk writes the type's name for a part that has no canonical form, and `opaque` says why the
    first of them has none. `floats` is None, or a list that takes all floats in their order. `most` parts are
    walked at all, and `further` ones after an opaque one. `names` are those of the classes met so far.
    """

    __slots__ = (
        *("above", "first", "floats", "full", "further", "iterators", "lenient", "less", "mask"),
        *("memo", "most", "names", "nodes", "opaque"),
    )

    def __init__(self, iterators, above=None):
        self.full, self.less, self.mask = [], [], {}
        self.memo, self.nodes, self.iterators = {}, 0, iterators
        self.above, self.first = above, 0 if above is None else above.first + len(above.memo)
        self.names = {} if above is None else above.names
        self.lenient, self.floats, self.opaque = False, None, ""
        self.most = self.further = MAX_NODES

    def digests(self):
        """Return the digests of the full, the floatless and the typeless text."""
        full, floatless, typeless = self.texts()
        digest = digest_of(full)
        return (
            digest,
            digest if floatless is full else digest_of(floatless),
            digest if typeless == full else digest_of(typeless),
        )

    def digest(self):
        """Return the digest of the full text alone."""
        return digest_of(neutral("".join(self.full)))

    def texts(self):
        """Return the full, the floatless and the typeless text; the second `is` the first without floats."""
        full, less = neutral("".join(self.full)), neutral("".join(self.less))
        if not self.mask:
            return full, full, less
        masked = list(self.full)
        for index, text in self.mask.items():
            masked[index] = text
        return full, neutral("".join(masked)), less

    def taken_texts(self):
        """Return the three texts so far, and begin them anew."""
        texts = self.texts()
        self.full, self.less, self.mask = [], [], {}
        return texts

    def run(self, value):
        """Walk by trampoline: a handler that has children is a generator of them.

        Raises:
            UnencodableValue: some part has no canonical form, or the project's code raised anything.
        """
        try:
            self._run(value)
        except UnencodableValue:
            raise
        except Exception as error:  # a hostile __module__, __dict__, __iter__ ...
            raise UnencodableValue("taking it apart raised %s" % type(error).__name__) from None

    def _run(self, value):
        children = self.visit(value)
        if children is None:
            return
        stack = [children]
        while stack:
            for child in stack[-1]:
                children = self.visit(child)
                if children is not None:
                    stack.append(children)
                    break
            else:
                stack.pop()

    def visit(self, value):
        """Write a value without children, or return a generator that writes around its children."""
        self.nodes += 1
        if self.nodes > self.most:
            raise UnencodableValue(self.opaque or "more than %d parts" % MAX_NODES)
        kind = type(value)
        if kind in _FLAT:
            return self._atom(kind, value)
        handler = _CONTAINERS.get(kind)
        return handler(self, value) if handler is not None else handler_of(kind)(self, value)

    def _atom(self, kind, value):
        text = literal(value) if kind not in _TEXTS or len(value) <= LONG else _shortened(kind, value)
        if kind is float:
            self.mask[len(self.full)] = "~"
            self.keep_floats((value,))
        self.full.append(text)
        self.less.append(text if kind in _EXACT else _number_text(value))

    def write(self, text, less=None):
        """Append to the full text, and to the typeless one what stands there instead."""
        self.full.append(text)
        self.less.append(text if less is None else less)

    def write_floats(self, text, masked, less):
        """Append a text that holds floats."""
        self.mask[len(self.full)] = masked
        self.write(text, less)

    def keep_floats(self, values):
        """Keep floats that were written, if they are wanted."""
        if self.floats is not None:
            self.floats.extend(values)

    def name_of(self, cls):
        """Return the name of a type, found out once in a walk."""
        name = self.names.get(cls)
        if name is None:
            name = self.names[cls] = type_name(cls)
        return name

    def give_up(self, name, why):
        """Write the name of something that has no canonical form; raise `UnencodableValue` unless lenient."""
        if not self.lenient:
            raise UnencodableValue(why)
        self._note_opaque(why)
        self.write("<opaque %r>" % name)

    def _note_opaque(self, why):
        if why and not self.opaque:
            self.opaque = why
            self.most = min(self.most, self.nodes + self.further)

    def met(self, value):
        """Number a mutable object; write a reference and return true if it was met before."""
        walk, key = self, id(value)
        while walk is not None:
            found = walk.memo.get(key)
            if found is not None:
                self.write("@%d" % found[0])
                return True
            walk = walk.above
        # The value is kept: the address of a temporary object must not be given to another.
        self.memo[key] = (self.first + len(self.memo), value)
        return False

    def parts_of(self, items):
        """Return the three texts of each item, walked on its own, as three sorted lists."""
        triples, floats = [], []
        for item in items:
            walk = Walk(self.iterators, self)
            walk.nodes, walk.lenient, walk.opaque = self.nodes, self.lenient, self.opaque
            walk.most, walk.further = self.most, self.further
            walk.floats = None if self.floats is None else []
            walk.run(item)
            triples.append(walk.texts())
            floats += walk.floats or ()
            self.nodes = walk.nodes
            self._note_opaque(walk.opaque)
        # A set has no order: that of the numbers is as good as any, and survives small differences.
        self.keep_floats(sorted(floats))
        return [sorted(texts) for texts in zip(*triples)] or [[], [], []]


def _shortened(kind, value):
    data = neutral_value(value)
    data = data if kind is bytes else data.encode("utf-8", "surrogatepass")
    return "<%s %s>" % (kind.__name__, blake2b(data, digest_size=16).hexdigest())


def _number_text(value):
    """Write a float or bool as the int that it equals, if there is one (and it is no -0.0)."""
    text = repr(value)
    if type(value) is float and (text == "-0.0" or not value.is_integer()):
        return text
    return literal(int(value))


def _flat_texts(items):
    """Return the masked and the typeless text of some atoms, comma separated."""
    masked, less = [], []
    for item in items:
        kind = type(item)
        text = "~" if kind is float else literal(item)
        masked.append(text)
        less.append(text if kind in _EXACT else _number_text(item))
    return ", ".join(masked), ", ".join(less)


def _list(walk, value):
    if walk.met(value):
        return None
    return _sequence(walk, value, "[", "]")


def _tuple(walk, value):
    text = _pair(walk, value) if len(value) == 2 else ""
    if not text:
        return _sequence(walk, value, "(", ")")
    walk.nodes += 2
    walk.write("(" + text + ")", "[" + text + "]")
    return None


def _pair(walk, value):
    """Return the text of a pair of texts and objects that were met, as lexers give by the thousand, or ""."""
    texts = []
    for item in value:
        if type(item) in _TEXTS and len(item) <= LONG:
            texts.append(repr(item))
        elif (met := walk.memo.get(id(item))) is not None:
            texts.append("@%d" % met[0])
        else:
            return ""
    return ", ".join(texts)


def _sequence(walk, value, opening, closing):
    kinds = set(map(type, value))
    if not kinds <= _FLAT or _holds_long(kinds, value):
        return _children(walk, value, opening, closing)
    walk.nodes += len(value) >> 4
    try:
        text = repr(value)
        if kinds <= _EXACT:
            walk.write(text, text if opening == "[" else repr(list(value)))
            return None
    except ValueError:  # holds a huge int
        return _children(walk, value, opening, closing)
    masked, less = _flat_texts(value)
    if walk.floats is not None:
        walk.floats += [item for item in value if type(item) is float]
    walk.write_floats(text, opening + masked + closing, "[" + less + "]")
    return None


def _holds_long(kinds, items):
    """Return whether one of some items is a text, or bytes, that is written as its digest."""
    if kinds.isdisjoint(_TEXTS):
        return False
    texts = items if kinds <= _TEXTS else [item for item in items if type(item) in _TEXTS]
    return max(map(len, texts)) > LONG


def _children(walk, items, opening, closing):
    walk.write(opening, "[")
    comma = ""
    for item in items:
        walk.write(comma)
        comma = ", "
        yield item
    walk.write(closing, "]")


def _dict(walk, value):
    if walk.met(value):
        return None
    if not value:  # keywords of most calls
        walk.write("{}")
        return None
    kinds = set(map(type, value))
    kinds.update(map(type, value.values()))
    if kinds <= _EXACT and not _holds_long(kinds, (*value, *value.values())):
        try:
            walk.write(repr(value))
        except ValueError:  # holds a huge int
            return _pairs(walk, value.items())
        walk.nodes += len(value) >> 3
        return None
    return _pairs(walk, value.items())


def _pairs(walk, pairs):
    walk.write("{")
    comma = ""
    for key, item in pairs:
        walk.write(comma)
        comma = ", "
        yield key
        walk.write(": ")
        yield item
    walk.write("}")


def _set(walk, value):
    if not walk.met(value):
        _sorted_items(walk, value, "set")


def _frozenset(walk, value):
    _sorted_items(walk, value, "frozenset")


def _sorted_items(walk, value, name):
    if set(map(type, value)) <= _EXACT:
        text = "{" + ", ".join(sorted(map(literal, value))) + "}"
        walk.nodes += len(value) >> 4
        walk.write(name + text, text)
        return
    full, masked, less = ("{" + ", ".join(texts) + "}" for texts in walk.parts_of(value))
    walk.write_floats(name + full, name + masked, less)


_CONTAINERS = {list: _list, tuple: _tuple, dict: _dict, set: _set, frozenset: _frozenset}


#: The digests of a value.
Encoded = namedtuple("Encoded", "full floatless typeless")  # noqa: PYI024 - typing is slow to import


def encode_in_part(value, floats=None):
    """Return the digests of a value of which parts may have no canonical form: of those, the types count.

    Args:
        floats: a list that takes all floats in their order; `None`: they are not wanted.

    Raises:
        UnencodableValue: no more than its type would be left.
    """
    return Encoded(*_walked(value, EXHAUST, floats).digests())


def _walked(value, iterators, floats=None):
    """Return a walk over what is known of a value.

    A lock or a local function somewhere in a result must not hide all the rest.
    """
    walk = walk_in_part(iterators, floats)
    walk.run(value)
    if walk.opaque and walk.nodes == 1:
        raise UnencodableValue(walk.opaque)
    return walk


def walk_in_part(iterators, floats=None):
    """Return a walk over what is to be known in part at least."""
    walk = Walk(iterators)
    walk.lenient, walk.further, walk.floats = True, MAX_FURTHER, floats
    return walk


def observe_return(value, args, kwargs, iterators=EXHAUST, floats=None):
    """Return the fields of a "call" record for a call that returned: its digests, and a text for people."""
    # The walk exhausts iterators: text first.
    text = render(value.items if type(value) is Spent else value)
    return dict(digest_return(value, args, kwargs, iterators, floats), text=text)


#: A call with more floats than these is not measured.
_MOST_FLOATS = 100_000


def measured(observe, outcome, args, kwargs):
    """Return what an observer gives, with the floats in result and arguments as base64 of 8 bytes each.

    There are none for too many. `skeleton` is the digest of all the rest: where it is the same, only floats
    differ.
    """
    floats = []
    fields = observe(outcome, args, kwargs, EXHAUST, floats)
    some = floats if len(floats) <= _MOST_FLOATS else []
    return dict(fields, floats=base64.b64encode(struct.pack("<%dd" % len(some), *some)).decode("ascii"))


def digest_return(value, args, kwargs, iterators=EXHAUST, floats=None):
    """Return the fields of a "call" record for a call that returned, without its text.

    `after` covers result and arguments in one walk: giving back an argument in place of a copy is seen.
    An outcome that cannot be encoded has empty digests and says why under `unencodable`; one that can be in
    part has digests of that part, and says why it is not more.
    """
    name = value.name if type(value) is Spent else type_name(type(value))
    fields = {"kind": "return", "type": name}
    try:
        walk = _walked(value, iterators, floats)
    except UnencodableValue as error:
        return dict(fields, digest="", floatless="", typeless="", after="", unencodable=str(error))
    if walk.opaque:
        fields["unencodable"] = walk.opaque
    fields["digest"], fields["floatless"], fields["typeless"] = walk.digests()
    for name, text in _after(walk, args, kwargs).items():
        fields.setdefault(name, text)
    if floats is not None:
        fields["skeleton"] = digest_of(walk.texts()[1])
    return fields


def digest_arguments(args, kwargs):
    """Return a digest of the arguments alone; empty where they cannot be encoded."""
    return _after(Walk(EXHAUST), args, kwargs)["after"]


def observe_raise(error, args, kwargs, iterators=EXHAUST, floats=None):
    """Return the fields of a "call" record for a call that raised: its digests, and a text for people."""
    return dict(digest_raise(error, args, kwargs, iterators, floats), text=render(error))


def digest_raise(error, args, kwargs, iterators=EXHAUST, floats=None):
    """Return them without the text: the type counts, the message does not."""
    name = type_name(type(error))
    digest = digest_of("<raises %r>" % name)
    walk = Walk(iterators)
    walk.floats = floats
    fields = {"kind": "raise", "type": name, "digest": digest, "floatless": digest, "typeless": digest}
    fields.update(_after(walk, args, kwargs))
    if floats is not None:
        fields["skeleton"] = digest_of(walk.texts()[1])
    return fields


def _after(walk, args, kwargs):
    """Continue the walk of the result over the arguments; nothing when they cannot be encoded.

    A lock or a local function somewhere in an argument must not hide what happened to all the rest.
    """
    walk.lenient, walk.most, walk.further = True, MAX_NODES, MAX_NODES
    try:
        walk.run(args)
        walk.run(kwargs)
    except UnencodableValue as error:
        return {"after": "", "unencodable": "the arguments afterwards: %s" % error}
    return {"after": walk.digest()}
