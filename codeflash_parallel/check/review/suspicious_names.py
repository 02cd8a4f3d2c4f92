"""The table of names that an optimization hardly needs and an attack often does. Pure."""

from __future__ import annotations

import re
from functools import cache

from codeflash_parallel.result.outcome_codes import FlagKind

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
