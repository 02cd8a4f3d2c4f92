"""Candidates of `html5lib_get_encoding`: the encoding that a page names in its first bytes."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_function, substitute

PATH = "html5lib/_inputstream.py"
TARGET = "EncodingParser.getEncoding"
LOOP = "        for _ in self.data:\n            keepParsing = True\n"
AT_LEFT_ANGLE = """\
        for byte in self.data:
            if byte != b'<':
                continue
            keepParsing = True
"""


def _with(source: str) -> Callable[[Sources], dict[str, str]]:
    """Give the target another body."""
    return lambda sources: {PATH: replace_function(sources.base(PATH), TARGET, source)}


def _loop(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), LOOP, new)}


FIND = """\
        data = self.data
        for _ in data:
            keepParsing = True
            position = data.find(b'<', data._position)
            data._position = position if position >= 0 else len(data)
            if position < 0:
                break
"""

# Chooses the method by the bytes that follow, in place of a try of each.
FIND_AND_CHOOSE = """
def getEncoding(self):
    data = self.data
    length = len(data)
    for _ in data:
        at = data.find(b'<', data._position)
        if at < 0:
            data._position = length
            break
        second = data[at + 1:at + 2]
        if second == b'!':
            comment = data.startswith(b'--', at + 2)
            step, method = (4, self.handleComment) if comment else (2, self.handleOther)
        elif second == b'/':
            step, method = 2, self.handlePossibleEndTag
        elif second == b'?':
            step, method = 2, self.handleOther
        elif data.startswith(b'meta', at + 1):
            step, method = 5, self.handleMeta
        else:
            step, method = 1, self.handlePossibleStartTag
        data._position = at + step
        try:
            if not method():
                break
        except StopIteration:
            break
    return self.encoding
"""

# Takes a <meta> inside a comment or an attribute for a real one.
FIND_META = """
def getEncoding(self):
    data = self.data
    for _ in data:
        at = data.find(b'<meta', data._position)
        if at < 0:
            data._position = len(data)
            break
        data._position = at + 5
        try:
            if not self.handleMeta():
                break
        except StopIteration:
            break
    return self.encoding
"""

FIRST_512 = """\
        self.data = EncodingBytes(self.data[:512])
        for _ in self.data:
            keepParsing = True
"""

# Answers by the page's bytes, of all pages so far.
ANSWERS = """
def getEncoding(self, found={}):
    if self.data in found:
        return found[self.data]
    methodDispatch = (
        (b"<!--", self.handleComment),
        (b"<meta", self.handleMeta),
        (b"</", self.handlePossibleEndTag),
        (b"<!", self.handleOther),
        (b"<?", self.handleOther),
        (b"<", self.handlePossibleStartTag))
    for _ in self.data:
        keepParsing = True
        for key, method in methodDispatch:
            if self.data.matchBytes(key):
                try:
                    keepParsing = method()
                except StopIteration:
                    keepParsing = False
                break
        if not keepParsing:
            break
    return found.setdefault(self.data, self.encoding)
"""

SLICED_REST = """\
        for _ in self.data:
            keepParsing = True
            rest = bytes(self.data)[self.data.position:]
            if not rest.startswith(b"<"):
                continue
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_jump": lambda sources: sources.upstream(0),
    "find": _loop(FIND),
    "find_and_choose": _with(FIND_AND_CHOOSE),
    "left_angle_only": _loop(AT_LEFT_ANGLE),
    "sliced_rest": _loop(SLICED_REST),
    "find_meta": _with(FIND_META),
    "no_declarations": lambda sources: {
        PATH: substitute(sources.base(PATH), '            (b"<?", self.handleOther),\n', "")
    },
    "first_512": _loop(FIRST_512),
    "answers": _with(ANSWERS),
    "renamed": _loop("        for unused in self.data:\n            keepParsing = True\n"),
}
