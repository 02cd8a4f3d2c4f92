"""Compile a changed module by compiling what has changed in it, and keep the code of the rest.

A *block* is one statement at the top of a module, or several that share lines. A changed text is cut into
blocks that the known text has, too, and what stands between them. That is parsed anew. Of a known block the
tree is kept, without the bodies of its functions and classes: stubs stand there, which name the block. Then
the whole tree is compiled, and code that is known, moved to its new lines, takes the place of the stubs'.

Code depends on other statements of its module in few ways, and each is seen to. Names that a function
declares global are global to the module's own code, so stubs declare them. Methods of imported names, and
`super`, are called otherwise: a definition with a name that was no import before, or is none now, is in
doubt, and so is a module that may have a `super` of its own. So is a text that means something else than its
lines say, or that the compiler warns of. What is in doubt gives None: then the whole module is compiled. The
code is equal to that of the whole, to the last position; only whether two functions share one object for
equal constants is not kept.
"""

import ast
import types
import warnings

from . import codes, moving

#: Begins the name of a block in a stub.
_MARK = "\0codeflash-parallel block "

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


class Incremental:
    """A module that has been compiled.

    Args:
        data: its bytes.
        path: its file, for messages and code objects.

    Raises:
        moving.InDoubtError: it has to be compiled as a whole each time.
        Exception: whatever compiling it raises.
    """

    def __init__(self, data, path):
        self._data, self._path = data, path
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self._code = compile(data, path, "exec", dont_inherit=True)
            tree = ast.parse(data, path)
        _doubt(told or _is_odd(data) or (b"super" in data and _is_super_named(tree)))
        self._imported = _imported(tree)
        self._blocks = list(_blocks(tree, data))
        self._tail = data[self._blocks[-1].end :] if self._blocks else data
        self._learn()

    def _learn(self):
        """Take the code of definitions from the module's, and see that all of it can be put together."""
        self._known = {}
        skeleton = self._compiled([node for block in self._blocks for node in block.moved_to(block.line)])
        _doubt("super" in skeleton.co_names or len(skeleton.co_consts) != len(self._code.co_consts))
        for const, known in zip(skeleton.co_consts, self._code.co_consts):
            mark = _mark(const)
            if mark is not None:
                _doubt(mark in self._known)
                self._known[mark] = known
        _doubt(len(self._known) != sum(len(block.marks) for block in self._blocks))
        _doubt(not _equal(self._filled(skeleton, dict.fromkeys(self._known, 0)), self._code))

    def code_of(self, data):
        """Return the code that other bytes give; None when the whole has to be compiled."""
        if data == self._data:
            return self._code
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                code = self._assembled(data)
        except Exception:  # the compiler says it better of the whole
            return None
        return None if told else code

    def _assembled(self, data):
        _doubt(_is_odd(data))
        body, moves = [], {}
        for line, part in self._parts(data):
            if isinstance(part, Block):
                body += part.moved_to(line)
                moves.update(dict.fromkeys(part.marks, line - part.line))
            else:
                body += part
        self._compare_imports(_imported(ast.Module(body, [])), moves)
        skeleton = self._compiled(body)
        # The flags of a module's code say what it imports from __future__.
        _doubt("super" in skeleton.co_names or skeleton.co_flags != self._code.co_flags)
        return self._filled(skeleton, moves)

    def _parts(self, data):
        """Yield what a text consists of: (line, a block or a list of statements)."""
        at = line = first = 0
        while at < len(data):
            first, start = self._next_block(data, at, first)
            between, text = data[at:start], self._text(first)
            try:
                nodes = self._statements(between, line, first)
            except SyntaxError:  # a decorator that was put above a block, or an error
                _doubt(not text)
                between, text = between + text, b""
                nodes = self._statements(between, line, first)
            yield line, nodes
            line += between.count(b"\n")
            if text:
                yield line, self._blocks[first]
            at, line, first = at + len(between + text), line + text.count(b"\n"), first + 1

    def _next_block(self, data, at, first):
        """Return which block, from a first one on, comes next in a text, and where."""
        for index in range(first, len(self._blocks)):
            start = _find_line(data, self._blocks[index].text, at)
            if start >= 0:
                return index, start
        return len(self._blocks), len(data)

    def _text(self, index):
        return self._blocks[index].text if index < len(self._blocks) else b""

    def _before(self, index):
        return self._blocks[index].before if index < len(self._blocks) else self._tail

    def _statements(self, text, line, following):
        """Return the statements of what stands before a block."""
        if not text.strip() or text == self._before(following):
            return []
        # A statement must end here, and not go on in the next line.
        _doubt(not text.endswith(b"\n") or text.endswith(b"\\\n"))
        tree = ast.parse(b"\n" * line + text, self._path)
        _doubt(b"super" in text and _is_super_named(tree))
        return tree.body

    def _compare_imports(self, imported, moves):
        changed = imported ^ self._imported
        _doubt(any(_mentions(self._known[mark], changed) for mark in moves) if changed else False)

    def _compiled(self, body):
        return compile(ast.Module(body, []), self._path, "exec", dont_inherit=True)

    def _filled(self, skeleton, moves):
        """Return a skeleton's code with what is known in the place of stubs."""
        consts, left = list(skeleton.co_consts), dict(moves)
        for index, const in enumerate(consts):
            mark = _mark(const)
            if mark is not None:
                lines, known = left.pop(mark), self._known[mark]
                consts[index] = moving.moved(known, lines) if lines else known
        _doubt(left)
        return skeleton.replace(co_consts=tuple(consts))


class Block:
    """One statement at the top of a module, or several that share lines.

    Attributes:
        text: its bytes, whole lines.
        before: what stands between it and the block before.
        line: how many lines are above it.
        end: where it ends in the module's bytes.
        marks: the names of its stubs.
    """

    def __init__(self, nodes, before, text, line, end):
        self.before, self.text, self.line, self.end = before, text, line, end
        _doubt(not text.endswith(b"\n") or text.endswith(b"\\\n"))
        marks = ["%s%d %d" % (_MARK, end, index) for index in range(len(nodes))]
        stubs = [_stub(node, mark) for node, mark in zip(nodes, marks)]
        self.marks = [mark for stub, mark in zip(stubs, marks) if stub is not None]
        self._nodes = [stub or node for stub, node in zip(stubs, nodes)]
        self._stands = line

    def moved_to(self, line):
        """Return its tree as it is with so many lines above."""
        for node in self._nodes if line != self._stands else ():
            ast.increment_lineno(node, line - self._stands)
        self._stands = line
        return self._nodes


def _doubt(found):
    if found:
        raise moving.InDoubtError


def _is_odd(data):
    return moving.ODD.search(data) or (data and not data.endswith(b"\n"))


def _blocks(tree, data):
    offsets = [0]
    for text in data.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(text))
    end = 0
    for nodes, first, last in _groups(tree.body):
        start, before = offsets[first - 1], data[end : offsets[first - 1]]
        end = offsets[last]
        yield Block(nodes, before, data[start:end], first - 1, end)


def _groups(body):
    """Return [nodes, first line, last line] of statements; those that share a line are together."""
    groups = []
    for node in body:
        first = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
        if groups and first <= groups[-1][2]:
            groups[-1][0].append(node)
            groups[-1][2] = max(groups[-1][2], node.end_lineno)
        else:
            groups.append([[node], first, node.end_lineno])
    return groups


def _find_line(data, text, at):
    """Return where a text begins with a line of some data, from a line on; -1: nowhere."""
    start = data.find(text, at)
    while start > at and data[start - 1] != 10:  # the end of a line
        start = data.find(text, start + 1)
    return start


def _stub(node, mark):
    """Return a definition with a mark for a body; None for what has to stay as it is."""
    if not isinstance(node, _DEFINITIONS) or getattr(node, "type_params", ()):
        return None
    named = _globals(node)
    if any(name.startswith("__") for name in named):  # which a class calls otherwise
        return None
    body = [ast.Assign([ast.Name("_", ast.Store())], ast.Constant(mark))]
    if named:
        body.append(ast.parse("def _(): global " + ", ".join(dict.fromkeys(named))).body[0])
    fields = {field: getattr(node, field, None) for field in node._fields}
    stub = ast.copy_location(type(node)(**dict(fields, body=body)), node)
    return ast.fix_missing_locations(stub)


def _globals(tree):
    """Return the names that some functions declare global."""
    return [name for part in ast.walk(tree) if isinstance(part, ast.Global) for name in part.names]


def _is_super_named(tree):
    """Say whether the module itself may have the name, and not only functions and classes in it.

    Then no method in it calls the builtin one directly. Not all names stand in the module's code: what a
    comprehension binds does not, nor does an annotation.
    """
    nodes = list(tree.body)
    for node in nodes:
        inside = {*node.body} if isinstance(node, _DEFINITIONS) else ()
        nodes += [child for child in ast.iter_child_nodes(node) if child not in inside]
    return "super" in _globals(tree) or any(getattr(node, "id", "") == "super" for node in nodes)


def _mark(const):
    """Return the mark in a stub's code; None for anything else."""
    inside = const.co_consts if isinstance(const, types.CodeType) else ()
    return next((mark for mark in inside if isinstance(mark, str) and mark.startswith(_MARK)), None)


def _imported(tree):
    """Return the names that a module imports for itself."""
    names, nodes = set(), list(tree.body)
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update(alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif not isinstance(node, (*_DEFINITIONS, ast.expr)):
            nodes += ast.iter_child_nodes(node)
    return names


def _mentions(code, names):
    # A local variable of an import's name is treated as the import is.
    if not names.isdisjoint(code.co_names + code.co_varnames + code.co_cellvars + code.co_freevars):
        return True
    return any(_mentions(const, names) for const in code.co_consts if isinstance(const, types.CodeType))


def _equal(one, other):
    """Say whether two codes are the same to the last line."""
    return not codes.difference(one, other, ()) and _lines(one) == _lines(other)


def _lines(code):
    inside = [_lines(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    return [codes.lines(code), inside]
