"""Canonical digests of Python values: equal values, equal digests; in any process, under any hash seed."""

import base64
import sys
from array import array
from collections import namedtuple

from .object_reduction import UnencodableValue
from .type_handlers import EXHAUST, Spent
from .type_names import type_name
from .value_text import render
from .value_walk import MAX_FURTHER, MAX_NODES, Walk, digest_of

#: The digests of a value.
Encoded = namedtuple("Encoded", "full floatless typeless")  # noqa: PYI024 - typing is slow to import


def encode_in_part(value, floats=None):
    """Return the digests of a value of which parts may have no canonical form: of those, the types count.

    Args:
        floats: a list that takes all floats in their order; `None`: nobody wants them.

    Raises:
        Unencodable: no more than its type would be left.
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


def _measuring(observe):
    """Return an observer that gives the floats in result and arguments, too, as the walk meets them.

    `skeleton` is the digest of all the rest: where it is the same, only floats differ.
    """

    def measure(outcome, args, kwargs):
        floats = []
        fields = observe(outcome, args, kwargs, EXHAUST, floats)
        return dict(fields, floats=_packed(floats))

    return measure


def _packed(floats):
    """Return floats as base64 of 8 bytes each; empty for none and for too many."""
    if not floats or len(floats) > _MOST_FLOATS:
        return ""
    numbers = array("d", floats)
    if sys.byteorder != "little":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode("ascii")


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


measure_return, measure_raise = _measuring(observe_return), _measuring(observe_raise)


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
    """Go on with the walk of the result over the arguments; nothing when they cannot be encoded.

    A lock or a local function somewhere in an argument must not hide what happened to all the rest.
    """
    walk.lenient, walk.most, walk.further = True, MAX_NODES, MAX_NODES
    try:
        walk.run(args)
        walk.run(kwargs)
    except UnencodableValue as error:
        return {"after": "", "unencodable": "the arguments afterwards: %s" % error}
    return {"after": walk.digest()}
