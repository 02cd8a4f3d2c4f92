"""Candidates of `click_split_arg_string`: a command line split as by a shell, though it may be incomplete."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, function_source, insert_before, replace_body, replace_function

PATH = "src/click/shell_completion.py"
TARGET = "split_arg_string"


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), TARGET, new)}


def _before(new: str) -> Callable[[Sources], dict[str, str]]:
    """Put statements before those of the base."""

    def texts(sources: Sources) -> dict[str, str]:
        base = function_source(sources.base(PATH), TARGET)
        function = base.replace("    import shlex\n", f"{new}\n    import shlex\n", 1)
        return {PATH: replace_function(sources.base(PATH), TARGET, function)}

    return texts


PLAIN_WORDS = """
    if not ("'" in string or '"' in string or "\\\\" in string):
        return re.findall(r"[^ \\t\\r\\n]+", string)
"""

PLAIN_WORDS_ANY_SPACE = """
    if not ("'" in string or '"' in string or "\\\\" in string):
        return string.split()
"""

ONE_KIND_OF_QUOTES = """
    if "'" not in string and "\\\\" not in string:
        return re.findall(r"[^ \\t\\r\\n]+", string)
"""

TOKENS = r"""
_SPACES = re.compile(r"[ \t\r\n]*")
_TOKEN = re.compile(
    r'''(?s:[^ \t\r\n'"\\]+|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+(?=[ \t\r\n]|\Z)'''
)
_PIECE = re.compile(r'''(?s:([^ \t\r\n'"\\]+)|\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)")''')
_ESCAPED = re.compile(r'\\(["\\])')


def _unquoted(piece):
    plain, escaped, single, double = piece.groups()
    if double is not None:
        return _ESCAPED.sub(r"\1", double)
    return plain or escaped or single or ""


def _complete_tokens(string):
    tokens = []
    at = _SPACES.match(string).end()
    while at < len(string):
        token = _TOKEN.match(string, at)
        if token is None:
            return None
        tokens.append(_PIECE.sub(_unquoted, token[0]))
        at = _SPACES.match(string, token.end()).end()
    return tokens
"""

TRY_TOKENS = """
    tokens = _complete_tokens(string)
    if tokens is not None:
        return tokens
"""


def _by_patterns(sources: Sources) -> dict[str, str]:
    text = _before(TRY_TOKENS)(sources)[PATH]
    return {PATH: insert_before(text, TARGET, TOKENS)}


PARTIAL_DROPPED = """
import shlex

try:
    return shlex.split(string)
except ValueError:
    return shlex.split(string.rpartition(" ")[0])
"""

QUOTES_STRIPPED = """
return [word.strip("'") for word in re.findall(r"[^ \\t\\r\\n]+", string)]
"""

SPLIT_TWICE = """
import shlex

try:
    shlex.split(string)
    return shlex.split(string)
except ValueError:
    lex = shlex.shlex(string, posix=True)
    lex.whitespace_split = True
    lex.commenters = ""
    out = []
    try:
        for token in lex:
            out.append(token)
    except ValueError:
        out.append(lex.token)
    return out
"""


def _memo(sources: Sources) -> dict[str, str]:
    text = add_import(sources.base(PATH), "import functools")
    function = function_source(text, TARGET)
    hidden = "@functools.cache\n" + function.replace(f"def {TARGET}", f"def _{TARGET}")
    text = replace_body(text, TARGET, f"return list(_{TARGET}(string))")
    return {PATH: insert_before(text, TARGET, hidden)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "plain_words": _before(PLAIN_WORDS),
    "by_patterns": _by_patterns,
    "plain_words_any_space": _before(PLAIN_WORDS_ANY_SPACE),
    "one_kind_of_quotes": _before(ONE_KIND_OF_QUOTES),
    "partial_dropped": _body(PARTIAL_DROPPED),
    "quotes_stripped": _body(QUOTES_STRIPPED),
    "split_twice": _body(SPLIT_TWICE),
    "memo": _memo,
}
