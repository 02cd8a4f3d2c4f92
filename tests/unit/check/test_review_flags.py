"""What is flagged in a candidate's code: what it adds, where it adds it, and nothing that was there."""

from __future__ import annotations

import ast
import statistics
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.review_flags import MAX_BYTES, added_flags
from codeflash_parallel.result.outcome_codes import FlagKind

BASELINE = '''"""Sums."""

import os
import time as clock
from . import settings


def total(values):
    """Return the sum."""
    result = 0
    for value in values:
        result += value
    return result


def log(path):
    with open(path, "a") as file:
        file.write(os.environ["USER"])
'''

#: Modules of the standard library: large, old, and full of what is flagged.
LIBRARY = Path(statistics.__file__).parent
MODULES = ["statistics.py", "inspect.py", "threading.py", "subprocess.py", "pickle.py", "unittest/case.py"]
SOURCES = {name: (LIBRARY / name).read_bytes() for name in MODULES} | {"sums.py": BASELINE.encode()}
LINES = [
    "",
    "# sys._getframe()",
    "x = 1",
    "    import gc",
    "gc.disable()",
    '"""',
    "os.environ",
    "def f(:",
    "\\",
]


def flags(body: str, old: str = BASELINE) -> list[tuple[str, str]]:
    """Return kinds and names of what a new body of `total` adds."""
    body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    new = old.replace('    """Return the sum."""\n', f'    """Return the sum."""\n{body}\n')
    assert new != old
    ast.parse(new)
    return [(f.kind.value, f.what) for f in added_flags({"m.py": old.encode()}, {"m.py": new.encode()})]


@pytest.mark.parametrize(
    ("body", "kind", "what"),
    [
        ("import sys; sys._getframe(1)", "frames", "sys._getframe"),
        ("import inspect as i; i.currentframe()", "frames", "inspect.currentframe"),
        ("from inspect import stack as s; s()", "frames", "inspect.stack"),
        ("import sys; getattr(sys, '_getframe')(1)", "frames", "sys._getframe"),
        ("try: 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame.f_back", "frames", ".f_back"),
        ("import gc; gc.disable()", "objects", "gc.disable"),
        ("import gc; g = gc; g.freeze()", "objects", "gc.freeze"),
        ("object.__subclasses__()", "objects", ".__subclasses__"),
        ("import ctypes", "native", "ctypes"),
        ("os._exit(0)", "exit", "os._exit"),
        ("from os import _exit as leave; leave(0)", "exit", "os._exit"),
        ("__import__('os')._exit(0)", "exit", "os._exit"),
        ("o = os; o.kill(1, 9)", "exit", "os.kill"),
        ("raise SystemExit", "exit", "builtins.SystemExit"),
        ("os.fork()", "concurrency", "os.fork"),
        ("import atexit; atexit.register(print)", "late", "atexit.register"),
        ("class A:\n    def __del__(self): pass", "late", "__del__"),
        ("import sys; sys.settrace(None)", "tracing", "sys.settrace"),
        ("import sys; sys.setprofile(None)", "tracing", "sys.setprofile"),
        ("clock.perf_counter = lambda: 0", "patching", "time.perf_counter = ..."),
        ("settings.FAST = True", "patching", "..settings.FAST = ..."),
        ("import json.encoder; json.encoder.FLOAT_REPR = str", "patching", "json.encoder.FLOAT_REPR = ..."),
        ("setattr(clock, 'time', None)", "patching", "setattr(time, ...)"),
        ("globals()['len'] = None", "patching", "globals()[...] = ..."),
        ("global len; len = None", "patching", "len = ..."),
        ("import builtins", "patching", "builtins"),
        ("import sys; sys.modules['json'] = None", "patching", "sys.modules"),
        ("import importlib; importlib.reload(os)", "patching", "importlib.reload"),
        ("total.__code__ = log.__code__", "patching", ".__code__"),
        ("os.environ.get('PYTEST_CURRENT_TEST')", "environment", "os.environ.get"),
        ("os.getenv('CI')", "environment", "os.getenv"),
        ("clock.perf_counter()", "clock", "time.perf_counter"),
        ("import threading", "concurrency", "threading"),
        ("from multiprocessing import Pool", "concurrency", "multiprocessing.Pool"),
        ("import subprocess", "concurrency", "subprocess"),
        ("from concurrent.futures import ThreadPoolExecutor as T", "concurrency", "concurrent.futures.ThreadPoolExecutor"),
        ("open('/dev/shm/cache', 'wb')", "files", "open for writing"),
        ("open('cache', mode=values[0])", "files", "open for writing"),
        ("import pathlib; pathlib.Path('x').write_text('')", "files", ".write_text"),
        ("import pathlib; pathlib.Path('x').open('w')", "files", ".open for writing"),
        ("os.remove('x')", "files", "os.remove"),
        ("import socket", "network", "socket"),
        ("class A:\n    def __reduce__(self): return (print, ())", "disguise", "__reduce__"),
        ("class A:\n    __class__ = property(lambda self: int)", "disguise", "__class__"),
        ("values.__class__ = list", "disguise", "__class__ = ..."),
        ("import pickle; pickle.loads(b'')", "disguise", "pickle.loads"),
        ("exec('1')", "dynamic", "builtins.exec"),
        ("import pytest; pytest.skip('no')", "runner", "pytest.skip"),
    ],
)  # fmt: skip
def test_what_an_attack_needs_is_flagged(body: str, kind: str, what: str) -> None:
    assert (kind, what) in flags(body)


@pytest.mark.parametrize(
    "body",
    [
        "return sum(values)",
        "import functools, itertools, math, collections\nreturn math.fsum(values)",
        "values = sorted(set(values)); return values.__class__(values)",
        "with open('table.txt') as file: return file.read()",
        "with open('table.txt', 'rb') as file: return file.read()",
        "cache = {}; cache['len'] = 1; self = cache; self.x = 2",
        "import numpy as np\nreturn np.sum(np.asarray(values), dtype=int)",
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 0",
        "id = time = max(values); return id",
    ],
)
def test_what_honest_code_needs_is_not(body: str) -> None:
    assert flags(body) == []


def test_a_builtin_that_a_module_binds_anew() -> None:
    new = BASELINE + "\n\ndef sorted(values):\n    return values\n"
    (flag,) = added_flags({"m.py": BASELINE.encode()}, {"m.py": new.encode()})
    assert (flag.kind, flag.what, flag.line) == (FlagKind.PATCHING, "sorted = ...", new.count("\n") - 1)


def test_a_flag_says_where_and_comes_once_a_file() -> None:
    new = BASELINE.replace("    result = 0\n", "    result = 0\n    os.getpid()\n    os.getpid()\n")
    (flag,) = added_flags({"a/m.py": BASELINE.encode()}, {"a/m.py": new.encode()})
    assert (flag.path, flag.what) == ("a/m.py", "os.getpid")
    assert new.splitlines()[flag.line - 1].strip() == "os.getpid()"


def test_what_the_baseline_has_is_not_flagged_and_one_more_of_it_is() -> None:
    moved = BASELINE.replace("os.environ", "os.environ ").replace("def log(path)", "def log(path, mode='a')")
    assert added_flags({"m.py": BASELINE.encode()}, {"m.py": moved.encode()}) == ()
    assert flags('os.environ["HOME"]') == [("environment", "os.environ")]
    again = BASELINE + '\n\ndef more():\n    return os.environ["HOME"]\n'
    (flag,) = added_flags({"m.py": BASELINE.encode()}, {"m.py": again.encode()})
    assert flag.line == again.count("\n")


def test_what_moves_to_another_file_is_not_added() -> None:
    head, log = BASELINE.split("def log")
    old = {"m.py": BASELINE.encode(), "n.py": None}
    new = {"m.py": head.encode(), "n.py": f"import os\n\n\ndef log{log}".encode()}
    assert added_flags(old, new) == ()
    assert [flag.path for flag in added_flags({"n.py": None}, {"n.py": new["n.py"]})] == ["n.py", "n.py"]
    assert added_flags({"m.py": BASELINE.encode()}, {"m.py": None}) == ()


@pytest.mark.parametrize(("text", "why"), [(b"def f(:", "parsed"), (b"#" * (MAX_BYTES + 1), "large")])
def test_what_is_not_looked_at_is_said(text: bytes, why: str) -> None:
    (flag,) = added_flags({"m.py": b""}, {"m.py": text})
    assert (flag.kind, flag.line) == (FlagKind.UNREAD, 0)
    assert why in flag.what


def test_other_encodings_and_other_files() -> None:
    old = "# coding: latin-1\nx = 'ä'\n".encode("latin-1")
    (flag,) = added_flags({"m.py": old}, {"m.py": old + b"import gc\n"})
    assert (flag.what, flag.line) == ("gc", 3)
    assert added_flags({"data.txt": b""}, {"data.txt": b"import gc"}) == ()


@pytest.mark.slow
@given(st.sampled_from(sorted(SOURCES)))
def test_the_baseline_has_no_flags(name: str) -> None:
    text = SOURCES[name]
    assert added_flags({name: text}, {name: text}) == ()
    rewritten = ast.unparse(ast.parse(text)).encode()  # without comments, on other lines
    assert added_flags({name: text}, {name: rewritten}) == ()


@given(st.sampled_from(["sums.py", "statistics.py"]), st.data())
def test_whatever_is_put_into_a_file_every_flag_has_a_place_in_it(name: str, data: st.DataObject) -> None:
    lines = SOURCES[name].decode().splitlines(keepends=True)
    at = data.draw(st.integers(0, len(lines)))
    more = data.draw(st.lists(st.sampled_from(LINES), max_size=3))
    text = "".join([*lines[:at], *(f"{line}\n" for line in more), *lines[at:]]).encode()
    for flag in added_flags({name: SOURCES[name]}, {name: text}):
        assert (flag.kind is FlagKind.UNREAD) == (flag.line == 0)
        assert flag.line <= text.count(b"\n") + 1
