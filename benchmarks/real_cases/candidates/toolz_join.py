"""Candidates of `toolz_join`: pairs of items of two sequences that have the same key."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "toolz/itertoolz.py"
#: Where the body begins that upstream changed, and where it ends.
FIRST = "    d = groupby(leftkey, leftseq)\n    seen_keys = set()\n"
NEXT = "\n\ndef diff("
REST = """
    if right_default != no_default:
        for key, matches in iteritems(d):
            if key not in seen_keys:
                for match in matches:
                    yield (match, right_default)
"""


def _body(source: str) -> Callable[[Sources], dict[str, str]]:
    """Give `join` another body behind the making of its keys."""

    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        begin = text.index(FIRST)
        old = text[begin : text.index(NEXT, begin)]
        return {PATH: substitute(text, old, source)}

    return texts


def _edit(*edits: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        for old, new in edits:
            text = substitute(text, old, new)
        return {PATH: text}

    return texts


GET_MATCHES = """\
    d = groupby(leftkey, leftseq)
    matches_of = d.get
    missing = () if left_default == no_default else (left_default,)
    if right_default == no_default:
        for item in rightseq:
            for match in matches_of(rightkey(item), missing):
                yield (match, item)
        return

    seen_keys = set()
    for item in rightseq:
        key = rightkey(item)
        seen_keys.add(key)
        for match in matches_of(key, missing):
            yield (match, item)
    for key, matches in iteritems(d):
        if key not in seen_keys:
            for match in matches:
                yield (match, right_default)
"""

RENAMED = """\
    groups = groupby(leftkey, leftseq)
    found = set()

    inner = (left_default == no_default)
    for right in rightseq:
        key = rightkey(right)
        found.add(key)
        if key in groups:
            for left in groups[key]:
                yield (left, right)
        elif not inner:
            yield (left_default, right)

    if right_default != no_default:
        for key, matches in iteritems(groups):
            if key not in found:
                for left in matches:
                    yield (left, right_default)
"""

SEEN = "        seen_keys.add(key)\n"
GROUPS = "    d = groupby(leftkey, leftseq)\n    seen_keys"
RUNS = "    d = dict((key, list(run)) for key, run in itertools.groupby(leftseq, leftkey))\n    seen_keys"

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_first": lambda sources: sources.upstream(0),
    "upstream": lambda sources: sources.upstream(1),
    "get_matches": _body(GET_MATCHES),
    "no_seen_keys": _edit(
        (
            "    left_default_is_no_default",
            "    keep = right_default != no_default\n    left_default_is_no_default",
        ),
        (SEEN, "        if keep:\n    " + SEEN),
    ),
    "first_of_group": _edit((REST, REST.replace("in matches:", "in matches[:1]:"))),
    "none_key_skipped": _edit(
        (SEEN + "        if key in d:", SEEN + "        if key is not None and key in d:"),
    ),
    "runs_of_keys": _edit((GROUPS, RUNS)),
    "seen_copied": _edit((SEEN, "        seen_keys = seen_keys | set([key])\n")),
    "renamed": _body(RENAMED),
}
