from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from compiled_runner import install_compiled, shared_runner
from projects import make_project

from codeflash_parallel.sandbox import runner_command


@pytest.fixture(scope="session", autouse=True)
def _runners_are_compiled_once(_runners_of_this_session: None) -> Iterator[None]:
    """Spare every new cache of this process the compilation of the runner."""
    shared_runner()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runner_command, "_install_new", install_compiled)
        yield


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a `project`, which no test changes, and room for its `cache`.

    All tests of a process share it: what is found out about a baseline is found out once.
    """
    base = tmp_path_factory.mktemp("shop")
    make_project(base / "project")
    return base
