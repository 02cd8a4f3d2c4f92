"""What new caches are spared: the runner is installed and compiled, and levels are tried, once a test process.

A runner's start is twice as long where its modules must be compiled first, and every cache of a test is new. A
project with an interpreter of its own has a runner that the command compiles, and levels that it tries.
"""

from __future__ import annotations

import compileall
import functools
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from codeflash_parallel.sandbox import level_probe, runner_command

#: Where pytest keeps this session's files; `conftest` says it. A worker of xdist ends without its last rites, or is
#: killed: what lies there is removed all the same, by a later session.
_SESSION: list[Path] = []


def keep_runners_in(folder: Path) -> None:
    """Have what all tests of this process share lie in a folder of pytest's."""
    _SESSION[:] = [folder]


@functools.cache
def shared_runner() -> Path:
    """Return an installed and compiled runner for all tests of this process: none of them changes it."""
    home = runner_command.install_runner(_SESSION[0])
    assert compileall.compile_dir(home, quiet=1)
    interpreter = Path(sys.executable)
    runner_command.compiled_mark(interpreter, home).touch()
    # The level that commands take unless another is named; what is found is kept beside the runner.
    prober = level_probe.LevelProber(interpreter=interpreter, runner_dir=home, cache=_SESSION[0])
    level_probe.choose("auto", "", prober)
    return home


def install_compiled(_modules: Mapping[str, bytes], home: Path) -> None:
    """Stand for the runner's installation into a cache that has none."""
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="runner-new-", dir=home.parent))
    try:
        shutil.copytree(shared_runner(), draft / "home")
        (draft / "home").rename(home)
    except OSError:
        if not home.is_dir():  # else somebody else was first
            raise
    finally:
        shutil.rmtree(draft)


def put_into(cache: Path) -> None:
    """Prepare a cache of which a command will make use; benchmarks have it compile and try for itself."""
    if _SESSION:
        install_compiled({}, cache / shared_runner().name)
        for tried in _SESSION[0].glob("isolation-*.json"):
            shutil.copy(tried, cache)
