from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from compiled_runner import install_compiled, shared_runner
from projects import make_project
from shared_baselines import load_or_learn

from codeflash_parallel.run.setup import evaluator_resources
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


@pytest.fixture(autouse=True)
def _baselines_are_found_out_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share what is found out about baselines with all tests of the session, but where a test asks for its own."""
    if request.node.get_closest_marker("own_baseline") is None:
        # Not what is found out later on, which belongs to this baseline and lies beside it.
        monkeypatch.setattr(evaluator_resources, "load_or_learn", load_or_learn)
