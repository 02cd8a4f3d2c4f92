"""Candidates of `markupsafe_striptags`: tags go, white space collapses, entities are decoded."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_body, replace_function, substitute

PATH = "src/markupsafe/__init__.py"
TARGET = "Markup.striptags"
LAZY = 'r"<.*?>", re.DOTALL'
NEGATED = 'r"<[^>]*>"'


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), TARGET, new)}


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), old, new)}


def _upstream_again(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    method = function_source(sources.upstream(1)[PATH], TARGET)
    return {PATH: replace_function(text, TARGET, method)}


FIND_AHEAD = """
value = str(self)
for opening, closing in (("<!--", "-->"), ("<", ">")):
    start = value.find(opening)
    if start == -1:
        continue
    kept = []
    after = 0
    while start != -1:
        end = value.find(closing, start + len(opening))
        if end == -1:
            break
        kept.append(value[after:start])
        after = end + len(closing)
        start = value.find(opening, after)
    kept.append(value[after:])
    value = "".join(kept)
value = " ".join(value.split())
return self.__class__(value).unescape()
"""

SPLIT_BY_PATTERN = """
value = _strip_comments_re.sub("", str(self)) if "<!--" in self else str(self)
value = " ".join("".join(_strip_tags_re.split(value)).split())
return self.__class__(value).unescape()
"""


def _split_by_pattern(sources: Sources) -> dict[str, str]:
    text = replace_body(sources.base(PATH), TARGET, SPLIT_BY_PATTERN)
    return {PATH: substitute(text, LAZY, NEGATED)}


ONE_PATTERN = """
value = re.sub("(?s)<!--.*?-->|<.*?>", "", self)
return self.__class__(" ".join(value.split())).unescape()
"""

DECODED_FIRST = """
value = _strip_comments_re.sub("", self.unescape())
value = _strip_tags_re.sub("", value)
return " ".join(value.split())
"""

RENAMED = """
text = _strip_comments_re.sub("", self)
text = _strip_tags_re.sub("", text)
words = text.split()
return self.__class__(" ".join(words)).unescape()
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "upstream_spaces_last": _upstream_again,
    "negated_class": _change(LAZY, NEGATED),
    "find_ahead": _body(FIND_AHEAD),
    "split_by_pattern": _split_by_pattern,
    "one_pattern": _body(ONE_PATTERN),
    "decoded_first": _body(DECODED_FIRST),
    "tags_only": _change('value = _strip_comments_re.sub("", self)', "value = self"),
    "renamed": _body(RENAMED),
}
