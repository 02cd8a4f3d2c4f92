"""Candidates of `tomli_skip_until`: the position of the next such character, with no bad one before it."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, function_source, replace_body, replace_function

PATH = "tomli/_parser.py"
TARGET = "skip_until"


def _body(new: str, statement: str = "") -> Callable[[Sources], dict[str, str]]:
    def texts(sources: Sources) -> dict[str, str]:
        text = replace_body(sources.base(PATH), TARGET, new)
        return {PATH: add_import(text, statement) if statement else text}

    return texts


def _upstream_again(sources: Sources) -> dict[str, str]:
    function = function_source(sources.upstream(1)[PATH], TARGET)
    return {PATH: replace_function(sources.upstream(0)[PATH], TARGET, function)}


FIND_THEN_CHECK = """
end = src.find(expect_char, pos)
found = end != -1
if not found:
    end = max(pos, len(src))
if not frozenset(error_on).isdisjoint(src[pos:end]):
    while src[pos] not in error_on:
        pos += 1
    raise suffixed_err(src, pos, f'Found invalid character "{src[pos]!r}"')
if not found and error_on_eof:
    raise suffixed_err(src, end, f'Expected "{expect_char!r}"')
return end
"""

ENUMERATED = """
for index in range(pos, len(src)):
    char = src[index]
    if char == expect_char:
        return index
    if char in error_on:
        raise suffixed_err(src, index, f'Found invalid character "{char!r}"')
end = max(pos, len(src))
if error_on_eof:
    raise suffixed_err(src, end, f'Expected "{expect_char!r}"')
return end
"""

UNCHECKED = """
end = src.find(expect_char, pos)
if end == -1:
    end = len(src)
    if error_on_eof:
        raise suffixed_err(src, end, f'Expected "{expect_char!r}"')
return end
"""

LAST_UNCHECKED = """
end = src.find(expect_char, pos)
found = end != -1
end = end if found else max(pos, len(src))
for index, char in enumerate(src[pos : end - found], pos):
    if char in error_on:
        raise suffixed_err(src, index, f'Found invalid character "{char!r}"')
if not found and error_on_eof:
    raise suffixed_err(src, end, f'Expected "{expect_char!r}"')
return end
"""

EOF_FORGOTTEN = """
end = src.find(expect_char, pos)
end = len(src) if end == -1 else end
if error_on.isdisjoint(src[pos:end]):
    return end
while src[pos] not in error_on:
    pos += 1
raise suffixed_err(src, pos, f'Found invalid character "{src[pos]!r}"')
"""

ERROR_AT_THE_END = """
end = src.find(expect_char, pos)
found = end != -1
end = end if found else len(src)
for char in src[pos:end]:
    if char in error_on:
        raise suffixed_err(src, end, f'Found invalid character "{char!r}"')
if not found and error_on_eof:
    raise suffixed_err(src, end, f'Expected "{expect_char!r}"')
return end
"""

PATTERN_PER_CALL = """
stop = "".join(re.escape(char) for char in sorted({expect_char, *error_on}))
match = re.compile(f"[{stop}]").search(src, pos)
if match is None:
    end = max(pos, len(src))
    if error_on_eof:
        raise suffixed_err(src, end, f'Expected "{expect_char!r}"')
    return end
if match.group() != expect_char:
    raise suffixed_err(src, match.start(), f'Found invalid character "{match.group()!r}"')
return match.start()
"""

RENAMED = """
while True:
    try:
        current = src[pos]
    except IndexError:
        if error_on_eof:
            raise suffixed_err(src, pos, f'Expected "{expect_char!r}"')
        return pos
    if current == expect_char:
        return pos
    if current in error_on:
        raise suffixed_err(src, pos, f'Found invalid character "{current!r}"')
    pos = pos + 1
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "upstream_first_bad": _upstream_again,
    "find_then_check": _body(FIND_THEN_CHECK),
    "enumerated": _body(ENUMERATED),
    "unchecked": _body(UNCHECKED),
    "last_unchecked": _body(LAST_UNCHECKED),
    "eof_forgotten": _body(EOF_FORGOTTEN),
    "error_at_the_end": _body(ERROR_AT_THE_END),
    "pattern_per_call": _body(PATTERN_PER_CALL, "import re"),
    "renamed": _body(RENAMED),
}
