"""Random modules, what others make of them while they are imported, and random changes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import indent

from hypothesis import strategies as st

PRELUDE = """
import functools
import inspect
import types
import contextlib
import dataclasses
from functools import lru_cache
STATE = 0
CONSTANT = 5
REGISTRY = {}

def wrapping(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper

def copying(function):
    return types.FunctionType(function.__code__, globals(), function.__name__, function.__defaults__)

def relined(function):
    function.__code__ = function.__code__.replace(co_name="relined")
    return function

def registering(function):
    REGISTRY[function.__name__] = function
    return function

def measuring(function):
    REGISTRY[function.__name__] = len(inspect.getsource(function))
    return function

def helper(x):
    return x * 2
"""

BODIES = (
    "return x + {k}",
    "total = 0\nfor item in range({k}):\n    total += item * x\nreturn total",
    "raise ValueError({k})",
    "def inner(z):\n    return z + x\nreturn inner({k})",
    "return sorted(range({k}), key=lambda v: (-v, x))",
    "return [helper(v) for v in range({k})]",
    "yield x\nyield {k}",
    "global STATE\nSTATE += {k}\nreturn STATE",
    "try:\n    return [x][{k}]\nexcept IndexError as error:\n    raise KeyError({k}) from error",
    "class Local:\n    value = {k}\nreturn Local.value + y",
    "return -0.0 if x else {k}",
    "return CONSTANT + {k}",
    "import math\nreturn math.sqrt({k})",
    "import sys\nreturn sys._getframe().f_code.co_name",
    "return lambda: x + {k}",
    "return first(x - 1) + {k} if x > 0 else helper({k})",
    "return {{'a', 'b', {k}}} & {{{k}}}",
    "global NEW_GLOBAL\nNEW_GLOBAL = {k}",
    "return (x, {k}, 'text', None, ...)",
    "pass",
)
METHOD_BODIES = (
    *("self.extra = {k}\nreturn self.extra", "self.extra, self.more = {k}, x", "return super().__eq__({k})"),
    *("return __class__.__name__", "return self.v + x", "return (lambda: super().__hash__ and {k})()"),
)
PLAIN_DECORATORS = ("", "", "", "@lru_cache(maxsize=None)", "@functools.lru_cache()")
STRANGE_DECORATORS = ("@wrapping", "@copying", "@relined", "@registering", "@measuring", "@unknown.wraps")
TABLES = (
    *("TABLE = [{f}(v) for v in range(3)]", "CODES = {{1: {f}.__code__}}", "TUPLE = ({f}.__code__,)"),
    "COPY = types.FunctionType({f}.__code__, globals())",
    *("ALIAS = {f}", "BY_NAME = {{'f': {f}}}", "PARTIAL = functools.partial({f}, 1)", "GENERATOR = {f}(1)"),
    *("SIGNATURE = str(inspect.signature({f}))", "SOURCE = inspect.getsource({f})", "DOC = {f}.__doc__"),
    "KIND = inspect.isgeneratorfunction({f})",
    "TEXT = len(open(__file__).read())",
    "BYTES = len(open(__file__.encode(), 'rb').read())",
    "LOADED = len(__loader__.get_data(__file__))",
    "GOT = len(__loader__.get_source(__name__))",
    "import pkgutil\nOF_PACKAGE = len(pkgutil.get_data(__name__, __file__.rpartition('/')[2]))",
    "RENAMED = types.FunctionType({f}.__code__.replace(co_name='renamed'), globals())",
    "import threading\nOUT = []\nthread = threading.Thread(target=lambda: OUT.append(str({f})))\nthread.start(); thread.join(); del thread",
    "MAPPED = list(map({f}, [1, 2]))",
    "COUNTED = {f}.__code__.co_argcount",
    "CALLER = lambda: {f}(2)",
    "def closing():\n    def inside(): return {f}(4)\n    return inside\nCLOSURE = closing()",
    "CONSTANT = 5",
    "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0); del pid",
)


@dataclass(frozen=True)
class Function:
    """One function of a module, as text in parts."""

    name: str
    body: str
    decorator: str = ""
    doc: str = ""
    annotation: str = ""
    default: str = "1"
    kind: str = "def"
    gap: str = ""

    def text(self, first: str = "") -> str:
        lines = [self.decorator] if self.decorator else []
        self_argument = "" if self.decorator == "@staticmethod" or not first else first + ", "
        only = self.decorator in {"@property", "@functools.cached_property"}
        arguments = first if only else f"{self_argument}x{self.annotation}, y={self.default}"
        body = f"x = y = 2\n{self.body}" if only else self.body
        lines.append(f"{self.kind} {self.name}({arguments}):")
        if self.doc:
            lines.append(indent(f'"""{self.doc}"""', "    "))
        return self.gap + "\n".join([*lines, indent(body, "    ")]) + "\n"


@dataclass(frozen=True)
class Module:
    """A module: functions, one class, and statements that make something of them."""

    functions: tuple[Function, ...]
    methods: tuple[Function, ...]
    class_decorator: str = ""
    class_constant: str = "v: int = 3"
    tables: tuple[str, ...] = ()
    tail: str = ""

    def text(self) -> str:
        methods = "\n".join(method.text("self") for method in self.methods)
        body = indent(f'"""Things."""\n{self.class_constant}\n{methods}', "    ")
        parts = [PRELUDE, *(function.text() for function in self.functions)]
        parts += [f"{self.class_decorator}\nclass Thing:\n{body}\n", *self.tables, self.tail]
        return "\n".join(parts) + "\n"


def bodies(templates: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.builds(lambda body, k: body.format(k=k), st.sampled_from(templates), st.integers(0, 4))


def functions(
    name: str, decorators: tuple[str, ...], templates: tuple[str, ...]
) -> st.SearchStrategy[Function]:
    return st.builds(
        Function,
        name=st.just(name),
        body=bodies(templates),
        decorator=st.sampled_from(decorators),
        doc=st.sampled_from(("", "", "Say it.")),
        annotation=st.sampled_from(("", ": int", ": 'list'")),
        default=st.sampled_from(("1", "2", "(1, 2)", "len")),
        kind=st.sampled_from(("def", "def", "def", "async def")),
        gap=st.sampled_from(("", "", "\n\n", "# above\n")),
    )


METHOD_DECORATORS = (
    "",
    "",
    "@staticmethod",
    "@classmethod",
    "@property",
    "@functools.cached_property",
    "@wrapping",
)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    strange = draw(st.booleans()) and draw(st.booleans())
    decorators = PLAIN_DECORATORS + STRANGE_DECORATORS[:-1] if strange else PLAIN_DECORATORS
    names = ("first", "second")
    return Module(
        functions=tuple(draw(functions(name, decorators, BODIES)) for name in names),
        methods=tuple(
            draw(functions(name, METHOD_DECORATORS, BODIES + METHOD_BODIES)) for name in ("one", "two")
        ),
        class_decorator=draw(st.sampled_from(("", "", "", "@dataclasses.dataclass", "@registering"))),
        tables=tuple(draw(st.lists(tables(), max_size=2))),
        tail=draw(st.sampled_from(("", "LAST = 1", "def last():\n    raise OSError"))),
    )


def tables() -> st.SearchStrategy[str]:
    made = st.builds(
        lambda t, f: t.format(f=f),
        st.sampled_from(TABLES),
        st.sampled_from(("first", "second", "Thing().one")),
    )
    # What fails while the module is imported would only hide what comes after it.
    return made.map(
        lambda text: f"try:\n{indent(text, '    ')}\nexcept Exception as error:\n    FAILED = str(error)"
    )


@dataclass(frozen=True)
class Case:
    """A change: two texts of a module, its targets, and the text of a module that uses it."""

    old: str
    new: str
    user: str
    targets: tuple[str, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a change: mostly of the body of a target alone, sometimes of anything."""
    old = draw(modules())
    targets = draw(st.sampled_from((("first",), ("second",), ("Thing.one",), ("first", "Thing.two"))))
    new = old
    for name in targets:
        new = _changed_function(new, name.rpartition(".")[2], {"body": draw(bodies(_templates(name)))})
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        new = draw(_other_change(new))
    user = "import functools, inspect, types\nfrom m import *\nimport m\n" + draw(st.just("") | tables())
    return Case(old=old.text(), new=new.text(), user=user, targets=targets)


def _templates(name: str) -> tuple[str, ...]:
    return BODIES + METHOD_BODIES if "." in name else BODIES


def _changed_function(module: Module, name: str, fields: dict[str, str]) -> Module:
    def changed(function: Function) -> Function:
        return replace(function, **fields) if function.name == name else function

    return replace(
        module, functions=tuple(map(changed, module.functions)), methods=tuple(map(changed, module.methods))
    )


@st.composite
def _other_change(draw: st.DrawFn, module: Module) -> Module:
    name = draw(st.sampled_from(("first", "second", "one", "two")))
    change = draw(
        st.sampled_from(
            ("body", "doc", "annotation", "default", "decorator", "kind", "gap", "constant", "table", "tail")
        )
    )
    if change == "constant":
        return replace(
            module, class_constant=draw(st.sampled_from(("v: int = 4", "v: float = 3.0", "w = 1; v = 3")))
        )
    if change == "table":
        return replace(module, tables=(*module.tables, draw(tables())))
    if change == "tail":
        return replace(module, tail=draw(st.sampled_from(("import string", "LAST = 1.0", "# end"))))
    return _changed_function(
        module, name, {change: getattr(draw(functions(name, PLAIN_DECORATORS, BODIES)), change)}
    )
