"""Candidates of `sqlparse_token_matching`: the next token for which one of some functions is true."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, function_source, replace_body, replace_function, substitute

PATH = "sqlparse/sql.py"
NAME = "TokenList._token_matching"
SLICE = "enumerate(self.tokens[start:end], start=start)"


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    def changed(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        function = substitute(function_source(text, NAME), old, new)
        return {PATH: replace_function(text, NAME, function)}

    return changed


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), NAME, new)}


def _islice(sources: Sources) -> dict[str, str]:
    text = add_import(sources.base(PATH), "from itertools import islice")
    function = substitute(function_source(text, NAME), SLICE, "islice(enumerate(self.tokens), start, end)")
    return {PATH: replace_function(text, NAME, function)}


ONE_FUNCTION = """\
    if start is None:
        return None
    tokens = self.tokens
    if reverse:
        assert end is None
        indices = range(start - 2, -1, -1)
    else:
        indices = range(len(tokens))[start:end]
    if not isinstance(funcs, (list, tuple)):
        for idx in indices:
            token = tokens[idx]
            if funcs(token):
                return idx, token
        return None, None
    for idx in indices:
        token = tokens[idx]
        for func in funcs:
            if func(token):
                return idx, token
    return None, None
"""

RANGE_OF_SLICE = """\
    if start is None:
        return None

    if not isinstance(funcs, (list, tuple)):
        funcs = (funcs,)

    tokens = self.tokens
    if reverse:
        assert end is None
        indices = range(start - 2, -1, -1)
    else:
        indices = range(len(tokens))[start:end]
    for idx in indices:
        token = tokens[idx]
        for func in funcs:
            if func(token):
                return idx, token
    return None, None
"""

ALL_MATCHES = """\
    if start is None:
        return None

    if not isinstance(funcs, (list, tuple)):
        funcs = (funcs,)

    if reverse:
        assert end is None
        indices = range(start - 2, -1, -1)
    else:
        indices = range(len(self.tokens))[start:end]
    tokens = [(idx, self.tokens[idx]) for idx in indices]
    matches = [(idx, token) for idx, token in tokens if any(func(token) for func in funcs)]
    return matches[0] if matches else (None, None)
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "range_of_slice": _body(RANGE_OF_SLICE),
    "one_function": _body(ONE_FUNCTION),
    "islice": _islice,
    "all_matches": _body(ALL_MATCHES),
    "end_ignored": _change(SLICE, "enumerate(self.tokens[start:], start=start)"),
    "end_included": _change(SLICE, "enumerate(self.tokens[start:end and end + 1], start=start)"),
    "first_function": _change("    funcs = (funcs,)\n", "    funcs = (funcs,)\n    funcs = funcs[:1]\n"),
    "reverse_from_start": _change("range(start - 2, -1, -1)", "range(start - 1, -1, -1)"),
    "slice_object": _change(
        SLICE,
        "enumerate(self.tokens[slice(start, end)], start=start)",
    ),
}
