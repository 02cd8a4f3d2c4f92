"""Compile the one statement of a module that a candidate changes, in place of the whole module.

A *piece* is a definition at the top of a module: from its first line (or that of its first decorator) to the
line before the next statement. Where the bytes before and behind it are the snapshot's, so is the code that
the compiler makes of them, but for the lines on which it stands. The text between them, below the module's
imports and as many empty lines, gives the rest. The snapshot's must give what it gives in the whole module,
and a candidate's the same but for the bodies of wanted functions. Whatever is in doubt gives None: then the
whole module is compiled.
"""

import __future__

import ast
import itertools
import warnings

from . import code_comparison, line_shift

#: What `from __future__` sets in the flags of code objects.
_FEATURES = 0
for _name in __future__.all_feature_names:
    _FEATURES |= getattr(__future__, _name).compiler_flag

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class TargetStatements:
    """The pieces of a module that hold targets.

    Args:
        data: the module's bytes.
        plain: outline of its code.
        targets: the qualified names that outlines leave closed.
        hooked: the code has hooks in it, whose places depend on what is imported anywhere in the module.
    """

    def __init__(self, data, plain, targets, *, hooked):
        self._data, self._plain, self._targets, self._hooked = data, plain, targets, hooked
        self._parts = code_comparison.parts(plain[0][1], targets)
        tree = ast.parse(b"" if line_shift.ODD.search(data) else data)
        self._header = _header(tree)
        cuts = _cuts(tree, data, {target.partition(".")[0] for target in targets})
        self._pieces = [piece for piece in map(self._piece, cuts) if piece.first is not None]

    def _piece(self, cut):
        piece = TargetStatement(self._data, cut, self._header, self._plain[0][1])
        parts = code_comparison.parts(piece.compiled(piece.text), self._targets)
        places = range(len(self._parts)) if parts else ()
        piece.first = next((n for n in places if _alike(self._parts[n : n + len(parts)], parts)), None)
        return piece

    def outline(self, data, wanted):
        """Return the outline of the code that other bytes give; None when the whole has to be compiled.

        Args:
            data: the bytes.
            wanted: qualified names of functions whose bodies may differ.
        """
        if data == self._data:
            return self._plain
        for piece in () if line_shift.ODD.search(data) else self._pieces:
            text = piece.text_in(data)
            if text is not None:
                return self._changed(piece, text, wanted)
        return None

    def _changed(self, piece, text, wanted):
        if self._hooked and b"import" in text:
            return None
        try:
            code = piece.compiled(text)
        except Exception:
            return None
        if piece.warned or code_comparison.difference(piece.code, code, wanted):
            return None
        parts, moved = code_comparison.parts(code, self._targets), text.count(b"\n") - piece.text.count(b"\n")
        behind = self._parts[piece.first + len(parts) :]
        try:
            behind = [self._moved(part, moved) for part in behind] if moved else behind
        except line_shift.LineShiftError:
            return None
        return [self._plain[0], *itertools.chain(*self._parts[: piece.first], *parts, *behind)]

    def _moved(self, part, lines):
        (name, code), *_ = part
        return code_comparison.outline(line_shift.moved(code, lines), self._targets, name)


class TargetStatement:
    """One piece: its text, what stands around it, and the code that the text gives by itself."""

    def __init__(self, data, cut, header, module):
        start, end = cut
        self._before, self.text, self._behind = data[:start], data[start:end], data[end:]
        lines = self._before.count(b"\n")
        self._above = header + b"\n" * lines if lines else b""
        self._module = module
        self.first, self.warned = None, False
        self.code = self.compiled(self.text)

    def text_in(self, data):
        """Return what other bytes have in this piece's place; None when they differ elsewhere, too."""
        end = len(data) - len(self._behind)
        fits = len(self._before) <= end and data.startswith(self._before) and data.endswith(self._behind)
        text = data[len(self._before) : end] if fits else b""
        # The last line must end here, and not go on in the next.
        return text if text.endswith(b"\n") and not text.endswith(b"\\\n") else None

    def compiled(self, text):
        """Return the code of a text in this piece's place, and note whether compiling it warns."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            flags = self._module.co_flags & _FEATURES
            code = compile(self._above + text, self._module.co_filename, "exec", flags, dont_inherit=True)
        self.warned = self.warned or bool(told)
        return code


def _header(tree):
    """Return a line that imports what a module imports at its top: methods of that are called otherwise."""
    names, nodes = [], list(tree.body)
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names += [
                alias.asname or alias.name.partition(".")[0] for alias in node.names if alias.name != "*"
            ]
        elif not isinstance(node, (*_DEFINITIONS, ast.expr)):
            nodes += ast.iter_child_nodes(node)
    return ("import " + ", ".join(dict.fromkeys(names))).encode() if names else b""


def _cuts(tree, data, names):
    """Yield where the definitions of some names begin in a module's bytes, and the next statements."""
    offsets = [0]
    for line in data.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    body = tree.body
    firsts = [min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))) for node in body]
    ends = [0, *(node.end_lineno for node in body)]
    for node, first, end, following in zip(body, firsts, ends, [*firsts[1:], len(offsets)]):
        alone = end < first and node.end_lineno < following
        if isinstance(node, _DEFINITIONS) and node.name in names and alone:
            start = offsets[first - 1]
            if not data[:start].endswith(b"\\\n"):
                yield start, offsets[following - 1]


def _alike(parts, others):
    """Say whether two lists of outlines are the same to the last line."""
    pairs = [pair for part in parts for pair in part]
    others = [pair for part in others for pair in part]
    return len(pairs) == len(others) and all(
        name == other and one == two and code_comparison.lines(one) == code_comparison.lines(two)
        for (name, one), (other, two) in zip(pairs, others)
    )
