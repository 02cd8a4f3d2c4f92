"""Runs in any interpreter: import a module's new text afresh, or its old text and swap; tell what can be seen.

One JSON line a case on standard input, one a case on standard output. Each way runs in a fork of its own.
"""

import importlib
import inspect
import json
import linecache
import os
import re
import sys
import traceback
import types
from pathlib import Path

FOLDER, RUNNER = sys.argv[1:]
sys.path.insert(0, str(Path(RUNNER).parent))
sys.dont_write_bytecode = True
runner = importlib.import_module(Path(RUNNER).name)
sys.modules["_codeflash_runner"] = runner
from _codeflash_runner import channels  # noqa: E402
from _codeflash_runner.forkserver import code_swap  # noqa: E402
from _codeflash_runner.imports import import_guard  # noqa: E402
from _codeflash_runner.process import process_watch  # noqa: E402


def spec_of(case):
    targets = [{"path": "m.py", "qualname": name} for name in case["targets"]]
    base = {"root": FOLDER, "project": FOLDER, "user_root": "/nowhere", "private": FOLDER, "runner": RUNNER}
    return dict(base, targets=targets, prove=["m.py"])


def write(case, which):
    for name, text in {"m.py": case[which], "user.py": case["user"]}.items():
        Path(FOLDER, name).write_text(text, encoding="utf-8")


def guarded(spec):
    guard = import_guard.install(spec, channels.RecordBuffer())
    # Cases follow each other within a second: bytecode of the last one would look up to date.
    sys.dont_write_bytecode = True
    return guard


def new_process(case):
    write(case, "new")
    guarded(spec_of(case))
    return seen()


def swapped(case):
    write(case, "old")
    spec = spec_of(case)
    guard = guarded(spec)
    channel = guard.proof._channel
    watch = process_watch.EarlyReadWatch(lambda path: guard.places.relative(path) == "m.py")
    watch.enter_project()
    watch.is_on = True
    swap = code_swap.CodeSwap(spec, guard.proof, watch)
    importlib.import_module("user")
    watch.is_on = False
    why = watch.finding or swap.examine()
    if why:
        return {"why": why}
    write(case, "new")
    try:
        swap.apply()
    except code_swap.SwapRefusal as error:
        return {"why": str(error)}
    linecache.clearcache()
    return dict(seen(), records=channel.records)


def seen():
    try:
        modules = [importlib.import_module(name) for name in ("user", "m")]
    except Exception as error:
        return {"fails": failure(error)}
    facts = {}
    for module in modules:
        for name, value in sorted(vars(module).items()):
            if not name.startswith("__") and not isinstance(value, types.ModuleType):
                facts[f"{module.__name__}.{name}"] = observed(value)
    return {"facts": facts}


def observed(value):
    if isinstance(value, types.FunctionType):
        return [shape(value), outcome(value)]
    if isinstance(value, type) and value.__module__ == "m":
        return [source_of(value), getattr(value, "__firstlineno__", None), members(value)]
    # One value may have two names: a coroutine cannot be awaited twice.
    return [plain(value.__class__), outcome(value)]


def members(cls):
    try:
        thing = cls()
    except Exception as error:
        return failure(error)
    found = {}
    for name, raw in sorted(vars(cls).items()):
        function = getattr(raw, "__func__", None) or getattr(raw, "fget", None) or raw
        if isinstance(function, types.FunctionType) and not name.startswith("__"):
            found[name] = [shape(function), outcome(lambda name=name: getattr(thing, name))]
        elif name != "__static_attributes__":  # which stays as it was
            found[name] = plain(raw)
    return [found, plain(vars(thing))]


def shape(function):
    code = function.__code__
    held = [code.co_firstlineno, code.co_name, code.co_varnames, code.co_names, code.co_flags]
    own = [function.__doc__, function.__name__, function.__qualname__, function.__module__]
    given = [function.__defaults__, function.__kwdefaults__, function.__annotations__]
    return plain([held, own, given, source_of(function)])


def source_of(thing):
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError) as error:
        return str(error)


def outcome(function):
    try:
        return settled(called(function))
    except BaseException as error:
        return failure(error)


def called(function):
    result = function
    while callable(result) and not isinstance(result, type):
        result = result(*[3] * required(result))
    return result


def required(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    return sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)


def settled(value):
    if inspect.iscoroutine(value):
        try:
            value.send(None)
        except StopIteration as end:
            return ["coroutine", plain(end.value)]
    if inspect.isgenerator(value):
        return ["generator", plain(list(value))]
    return plain(value)


def failure(error):
    frames = [
        (Path(f.filename).name, f.lineno, f.name, f.line) for f in traceback.extract_tb(error.__traceback__)
    ]
    cause = failure(error.__cause__) if error.__cause__ is not None else ""
    mine = [frame for frame in frames if frame[0] in ("m.py", "user.py")]
    return [type(error).__name__, plain(str(error)), mine, cause]


def plain(value):
    # A line number that an import has kept is that of the old text where a body before it has become longer.
    return re.sub("0x[0-9a-f]+|, line [0-9]+", "", f"{type(value).__name__} {value!r}")


def in_fork(work, case):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            answer = work(case)
        except BaseException:
            answer = {"broken": traceback.format_exc()}
        with os.fdopen(writing, "w") as file:
            file.write(json.dumps(answer))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        answer = json.loads(file.read())
    os.waitpid(pid, 0)
    return answer


for line in sys.stdin:
    case = json.loads(line)
    sys.path.insert(0, FOLDER)
    print(
        json.dumps({"new-process": in_fork(new_process, case), "swapped": in_fork(swapped, case)}), flush=True
    )
    sys.path.remove(FOLDER)
