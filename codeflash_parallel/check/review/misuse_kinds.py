"""Names of Python constructs by what they may be misused for. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from codeflash_parallel.result.outcome_codes import FlagKind

#: Dotted names by what they may be misused for; a name stands for everything below it, too, and a `*` at the
#: end for everything that begins so. The first that fits counts: whole modules come after what is in them.
_NAMES: dict[FlagKind, tuple[str, ...]] = {
    FlagKind.FRAMES: (
        *("sys._getframe*", "sys._current_*", "sys.exc_info", "sys.last_*", "traceback", "linecache"),
        *("inspect.stack", "inspect.trace", "inspect.currentframe", "inspect.getouterframes"),
        *("inspect.getinnerframes", "inspect.getframeinfo", "inspect.getsource*", "inspect.getclosurevars"),
    ),
    FlagKind.OBJECTS: ("gc", "sys.getrefcount", "weakref.getweakrefs", "tracemalloc"),
    FlagKind.NATIVE: ("ctypes", "_ctypes", "cffi", "mmap"),
    FlagKind.EXIT: (
        *("os._exit", "os.abort", "os.kill*", "os.exec*", "sys.exit", "builtins.exit", "builtins.quit"),
        *(
            "builtins.SystemExit",
            "builtins.KeyboardInterrupt",
            "signal",
            "faulthandler",
            "resource.setrlimit",
        ),
        "resource.prlimit",
    ),
    FlagKind.LATE: ("atexit", "weakref.finalize", "os.register_at_fork"),
    FlagKind.TRACING: (
        *("sys.settrace", "sys.setprofile", "sys.monitoring", "threading.settrace*", "threading.setprofile*"),
        *("sys.addaudithook", "sys.setswitchinterval", "sys.excepthook", "sys.unraisablehook"),
        *("sys.displayhook", "sys.breakpointhook", "bdb", "cProfile", "profile", "warnings.showwarning"),
    ),
    FlagKind.DYNAMIC: (
        "builtins.exec",
        "builtins.eval",
        "builtins.compile",
        "code",
        "types.CodeType",
        "runpy",
    ),
    FlagKind.PATCHING: (
        *(
            "sys.modules",
            "sys.meta_path",
            "sys.path",
            "sys.path_hooks",
            "sys.path_importer_cache",
            "builtins",
        ),
        *("importlib", "imp", "pkgutil", "site", "sitecustomize", "usercustomize", "unittest.mock", "mock"),
    ),
    FlagKind.ENVIRONMENT: (
        *("os.environ*", "os.getenv*", "os.putenv", "os.unsetenv", "sys.argv", "sys.orig_argv", "sys.flags"),
        *("sys.executable", "os.getpid", "os.getppid", "platform", "socket.gethostname", "getpass"),
    ),
    FlagKind.CLOCK: ("time", "_time", "timeit", "datetime.datetime.now", "datetime.datetime.utcnow"),
    FlagKind.CONCURRENCY: (
        *("threading", "_thread", "multiprocessing", "subprocess", "concurrent.futures", "pty", "queue"),
        *("os.fork*", "os.posix_spawn*", "os.spawn*", "os.system", "os.popen", "asyncio.create_subprocess_*"),
        *("asyncio.to_thread", "sched", "joblib", "_posixsubprocess"),
    ),
    FlagKind.FILES: (
        *(
            "os.open",
            "os.write",
            "os.pwrite*",
            "os.dup*",
            "os.remove*",
            "os.unlink",
            "os.rename*",
            "os.replace",
        ),
        *("os.mkdir", "os.makedirs", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.utime"),
        *("os.truncate", "os.ftruncate", "os.pipe*", "os.memfd_create", "os.mkfifo", "os.chdir", "os.fdopen"),
        *("shutil", "tempfile", "shelve", "dbm", "sqlite3", "fcntl", "diskcache"),
    ),
    FlagKind.NETWORK: ("socket", "ssl", "urllib.request", "http", "requests", "httpx", "aiohttp", "ftplib"),
    FlagKind.DISGUISE: ("pickle", "_pickle", "copyreg", "marshal", "dill", "cloudpickle"),
    FlagKind.RUNNER: (
        "pytest",
        "_pytest",
        "pluggy",
        "xdist",
        "unittest",
        "doctest",
        "hypothesis",
        "conftest",
    ),
}

#: Attributes of whatever object, by the same.
_ATTRIBUTES: dict[FlagKind, tuple[str, ...]] = {
    FlagKind.FRAMES: (
        *("f_back", "f_locals", "f_globals", "f_builtins", "f_code", "tb_frame", "gi_frame", "cr_frame"),
        *("__globals__", "__closure__", "cell_contents"),
    ),
    FlagKind.OBJECTS: ("__subclasses__",),
    FlagKind.PATCHING: ("__code__", "__builtins__"),
    FlagKind.FILES: ("write_text", "write_bytes", "tofile", "memmap"),
}

#: Methods that a class may define to be taken for something else, or to act late.
_METHODS: dict[FlagKind, tuple[str, ...]] = {
    FlagKind.DISGUISE: (
        *("__class__", "__eq__", "__ne__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
        *("__getnewargs__", "__getnewargs_ex__", "__instancecheck__", "__subclasscheck__", "__deepcopy__"),
        *("__copy__", "__array_ufunc__", "__array_function__", "__array__"),
    ),
    FlagKind.LATE: ("__del__",),
}


def kind_of(name: str) -> FlagKind | None:
    """Return what a dotted name may be misused for; `None`: nothing that is known."""
    match = _FLAGGED.fullmatch(name)
    return FlagKind[match.lastgroup] if match and match.lastgroup else None


def _alternatives(names: Sequence[str]) -> str:
    return "|".join(re.escape(name).replace(r"\*", r"\w*") for name in names)


#: One expression for all names; the group that matched is the kind.
_FLAGGED = re.compile(
    "|".join(rf"(?P<{kind.name}>(?:{_alternatives(names)})(?:\..*)?)" for kind, names in _NAMES.items())
)
#: What attributes and methods may be misused for, by name.
OF_ATTRIBUTES = {name: kind for kind, names in _ATTRIBUTES.items() for name in names}
OF_METHODS = {name: kind for kind, names in _METHODS.items() for name in names}
