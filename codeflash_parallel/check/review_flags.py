"""Find suspicious constructs that a candidate adds: a reason to look harder. Pure.

Never a verdict: honest candidates use threads and clocks, and an attack can be written without any name that
is known here. What the baseline has already is not flagged, wherever it stands. Names are followed through
imports and plain assignments of one file (`from os import _exit as leave`, `o = os`), not through what the
program does.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from codeflash_parallel.candidates.python_source import (
    decoded,
    parse,
    parse_anew,
    parse_piece,
    same_around,
)
from codeflash_parallel.result.outcome_codes import FlagKind
from codeflash_parallel.result.result_model import Flag

#: Names by what they may be misused for: dotted ones stand for everything below them, too; `.name` is an
#: attribute of whatever object, `def:name` what a class defines, and a `*` at the end stands for whatever
#: follows. The first that fits counts: whole modules come after what is in them.
_NAMES = {
    FlagKind.FRAMES: """
        sys._getframe* sys._current_* sys.exc_info sys.last_* traceback linecache
        inspect.stack inspect.trace inspect.currentframe inspect.get*frame* inspect.getsource*
        .f_back .f_locals .f_globals .f_builtins .f_code .tb_frame .gi_frame .cr_frame .__globals__
        .__closure__""",
    FlagKind.OBJECTS: "gc sys.getrefcount weakref.getweakrefs tracemalloc .__subclasses__",
    FlagKind.NATIVE: "ctypes _ctypes cffi mmap",
    FlagKind.EXIT: """
        os._exit os.abort os.kill* os.exec* sys.exit builtins.exit builtins.quit builtins.SystemExit
        builtins.KeyboardInterrupt signal faulthandler resource.setrlimit resource.prlimit""",
    FlagKind.LATE: "atexit weakref.finalize os.register_at_fork def:__del__",
    FlagKind.TRACING: """
        sys.settrace sys.setprofile sys.monitoring threading.settrace* threading.setprofile* sys.addaudithook
        sys.setswitchinterval sys.*hook bdb cProfile profile warnings.showwarning""",
    FlagKind.DYNAMIC: "builtins.exec builtins.eval builtins.compile code types.CodeType runpy",
    FlagKind.PATCHING: """
        sys.modules sys.meta_path sys.path* builtins importlib imp pkgutil site sitecustomize usercustomize
        unittest.mock mock .__code__ .__builtins__""",
    FlagKind.ENVIRONMENT: """
        os.environ* os.getenv* os.putenv os.unsetenv sys.argv sys.orig_argv sys.flags sys.executable os.getpid
        os.getppid platform socket.gethostname getpass""",
    FlagKind.CLOCK: "time _time timeit datetime.datetime.now datetime.datetime.utcnow",
    FlagKind.CONCURRENCY: """
        threading _thread multiprocessing subprocess _posixsubprocess concurrent.futures pty queue os.fork*
        os.posix_spawn* os.spawn* os.system os.popen asyncio.create_subprocess_* asyncio.to_thread
        sched joblib""",
    FlagKind.FILES: """
        os.open os.write os.pwrite* os.dup* os.remove* os.unlink os.rename* os.replace os.mkdir os.makedirs
        os.rmdir os.link os.symlink os.chmod os.chown os.utime os.truncate os.ftruncate os.pipe* os.mkfifo
        os.memfd_create os.chdir os.fdopen shutil tempfile shelve dbm sqlite3 fcntl diskcache
        .write_text .write_bytes .tofile .memmap""",
    FlagKind.NETWORK: "socket ssl urllib.request http requests httpx aiohttp ftplib",
    FlagKind.DISGUISE: """
        pickle _pickle copyreg marshal dill cloudpickle def:__class__ def:__eq__ def:__ne__ def:__reduce*
        def:__getstate__ def:__setstate__ def:__getnewargs* def:__instancecheck__ def:__subclasscheck__
        def:__deepcopy__ def:__copy__ def:__array*""",
    FlagKind.RUNNER: "pytest _pytest pluggy xdist unittest doctest hypothesis conftest",
}


@cache
def kind_of(name: str) -> FlagKind | None:
    """Return what a name may be misused for; `None`: nothing that is known."""
    match = _FLAGGED.fullmatch(name)
    return FlagKind[match.lastgroup] if match and match.lastgroup else None


def _alternatives(names: str) -> str:
    return "|".join(re.escape(name).replace(r"\*", r"\w*") for name in names.split())


#: One expression for all names; the group that matched is the kind.
_FLAGGED = re.compile(
    "|".join(rf"(?P<{kind.name}>(?:{_alternatives(names)})(?:\..*)?)" for kind, names in _NAMES.items())
)


#: Larger files are not read: their trees would take seconds, in which nothing else of a run goes on.
MAX_BYTES = 1_000_000
#: Files of the snapshot whose names are remembered: every candidate changes the same few.
_KEPT = 8

_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))
#: Functions that open files; their second argument is the mode.
_OPENERS = frozenset({"open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open"})
#: A mode that writes.
_WRITES = re.compile(r"(?=.*[wax+])[rwxabtU+]{1,4}")


class Construct(NamedTuple):
    """One construct: what it may be misused for, its resolved name, and its line from 1."""

    kind: FlagKind
    what: str
    line: int


def added_flags(old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> tuple[Flag, ...]:
    """Return what is flagged in some files and was not there before, each construct once a file.

    Args:
        old: the snapshot's content of the files that a candidate changes, by path; `None`: there is none.
        new: the candidate's content; `None`: it removes the file.
    """
    left: Counter[tuple[FlagKind, str]] = Counter()
    come: list[Flag] = []
    unread: list[Flag] = []
    for path in sorted(new):
        one, other = old.get(path) or b"", new[path] or b""
        if one == other or not path.endswith(".py"):
            continue
        try:
            gone, there = _compared(one, other)
        except SyntaxError as error:
            unread.append(Flag(kind=FlagKind.UNREAD, what=str(error), path=path, line=0))
            continue
        left.update((found.kind, found.what) for found in there)
        left.subtract((found.kind, found.what) for found in gone)
        for kind, what, line in sorted(there, key=lambda found: found.line):
            come.append(Flag(kind=kind, what=what, path=path, line=line))
    flags: dict[tuple[FlagKind, str, str], Flag] = {}
    for flag in come:
        if left[flag.kind, flag.what] > 0:
            left[flag.kind, flag.what] -= 1
            flags.setdefault((flag.kind, flag.what, flag.path), flag)
    return (*unread, *sorted(flags.values(), key=lambda flag: (flag.path, flag.line, flag.kind, flag.what)))


def _compared(old: bytes, new: bytes) -> tuple[list[Construct], list[Construct]]:
    """Return what is found where two texts of a file differ, in the old and in the new one.

    Raises:
        SyntaxError: one of them is not Python here, or too large.
    """
    if max(len(old), len(new)) > MAX_BYTES:
        raise SyntaxError("it is too large to be read")
    known, text = decoded(old), decoded(new)
    try:
        if known is not None and text is not None:
            return _of_pieces(known.removeprefix("\ufeff"), text.removeprefix("\ufeff"))
    except SyntaxError:
        pass  # what differs may be Python only together with what stands around it
    try:
        before, after = parse_anew(old), parse_anew(new)
    except SyntaxError as error:
        raise SyntaxError("it cannot be parsed here") from error
    return list(constructs(before, names_of(before))), list(constructs(after, names_of(after)))


def _of_pieces(known: str, text: str) -> tuple[list[Construct], list[Construct]]:
    head, tail = same_around(known, text)
    around, above = _names(known), text[:head].count("\n")
    before, after = (parse_piece(t[head : len(t) - tail]) for t in (known, text))
    gone, come = (constructs(tree, names_of(tree, around)) for tree in (before, after))
    return list(gone), [found._replace(line=found.line + above) for found in come]


@lru_cache(maxsize=_KEPT)
def _names(text: str) -> Mapping[str, str]:
    return names_of(parse(text))


def names_of(tree: ast.Module, around: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what names of a file stand for, dotted: imports, and names that are assigned one.

    Args:
        tree: of the file or of a part of it.
        around: what names stand for outside of that part.
    """
    known = dict(around or {})
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                known |= {a.asname or _first(a.name): a.name if a.asname else _first(a.name) for a in names}
            case ast.ImportFrom(names=names):
                known |= {a.asname or a.name: f"{_module(node)}.{a.name}" for a in names}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if whole := _resolved(value, known):
                known[name] = whole
    return known


def _first(name: str) -> str:
    return name.partition(".")[0]


def _module(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _resolved(node: ast.expr, known: Mapping[str, str]) -> str:
    """Return the dotted name of an expression whose first name is an import; else an empty text."""
    match node:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)), *_]):
            return name
        case ast.Attribute(value=value, attr=name):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name)), *_]):
            pass
        case _:
            return ""
    before = _resolved(value, known)
    return f"{before}.{name}" if before else ""


def constructs(tree: ast.Module, known: Mapping[str, str]) -> Iterator[Construct]:
    """Yield what is found in a tree.

    Args:
        tree: of a file or of a part of it.
        known: what names stand for (`names_of` the whole file).
    """
    for name, line in _bound(tree.body):
        if name in _BUILTINS:  # its own functions, and whoever imports them, get those
            yield Construct(FlagKind.PATCHING, f"{name} = ...", line)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for name in _said(node, known):
            if kind := kind_of(name):
                yield Construct(kind, name.removeprefix("def:"), getattr(node, "lineno", 1))
        for kind, what in _done(node, known):
            yield Construct(kind, what, getattr(node, "lineno", 1))
        # The longest name says it all: what it begins with would be said again.
        is_import = isinstance(node, ast.Attribute) and _starts_with_import(node, known)
        pending.extend(() if is_import else ast.iter_child_nodes(node))


def _starts_with_import(node: ast.expr, known: Mapping[str, str]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in known


def _said(node: ast.AST, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the names that a node says, as the table has them."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(names=names):
            yield from (f"{_module(node)}.{alias.name}" for alias in names)
        case ast.Attribute(attr=name, ctx=context):
            yield f".{name}"
            if isinstance(context, ast.Load):
                yield _resolved(node, known)
        case ast.Name(id=name, ctx=ast.Load()) if name in known:
            yield known[name]
        case ast.Name(id=name) if name in _BUILTINS and kind_of(f"builtins.{name}") != FlagKind.PATCHING:
            yield f"builtins.{name}"
        case ast.Call():
            yield _resolved(node, known)
        case ast.ClassDef(body=body):
            yield from (f"def:{name}" for name, _ in _bound(body))


def _done(node: ast.AST, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    """Yield what a node does that no name tells: it binds in the namespace of others, or writes files."""
    match node:
        case ast.Name(id="__builtins__" | "__import__" as name):
            yield FlagKind.PATCHING, name
        case ast.Global(names=names):
            yield from ((FlagKind.PATCHING, f"{name} = ...") for name in names if name in _BUILTINS)
        case ast.Attribute(value=value, attr=name, ctx=ast.Store() | ast.Del()):
            if whole := _resolved(value, known):
                yield FlagKind.PATCHING, f"{whole}.{name} = ..."
            elif name == "__class__":
                yield FlagKind.DISGUISE, "__class__ = ..."
        case ast.Subscript(value=ast.Call(func=ast.Name(id="globals")), ctx=ast.Store() | ast.Del()):
            yield FlagKind.PATCHING, "globals()[...] = ..."
        case ast.Call(func=ast.Name(id="setattr" | "delattr" as how), args=[value, *_]):
            if whole := _resolved(value, known):
                yield FlagKind.PATCHING, f"{how}({whole}, ...)"
        case ast.Call(func=ast.Name(id="open") | ast.Attribute(attr="open")):
            yield from _open(node, known)


def _open(node: ast.Call, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    """Say whether a call opens a file to write; methods called `open` tell by what looks like a mode."""
    name = _resolved(node.func, known) or getattr(node.func, "id", "")
    is_opener = name in _OPENERS
    modes = [k.value for k in node.keywords if k.arg == "mode"] or node.args[is_opener : is_opener + 1]
    for mode in modes:
        text = mode.value if isinstance(mode, ast.Constant) else "w" if is_opener else ""
        if _WRITES.fullmatch(str(text)):
            yield FlagKind.FILES, f"{name if is_opener else '.open'} for writing"


def _bound(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield the names that statements bind, and their lines."""
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement.lineno
            case ast.Assign(targets=targets):
                yield from (
                    (target.id, statement.lineno) for target in targets if isinstance(target, ast.Name)
                )
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((alias.asname or alias.name, statement.lineno) for alias in names)
