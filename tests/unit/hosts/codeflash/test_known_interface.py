from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from serial_optimizer import install

from codeflash_parallel.hosts.codeflash.known_interface import (
    EXPECTED,
    INSTALL,
    VERSION,
    find,
    first_difference,
)

MODULE = "an_optimizer_package"
SOURCE = """
class Optimizer:
    def best(self, candidates, *, baseline=None): ...
    @property
    def kind(self): ...
    @staticmethod
    def write(code, path): ...
    number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / f"{MODULE}.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return MODULE


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"Optimizer.best": "self candidates baseline", "Optimizer.kind": "self"}, ""),
        ({"Optimizer.write": "code path"}, ""),
        (
            {"Optimizer.kind": "self", "Optimizer.best": "self candidates"},
            "has the parameters (self candidates",
        ),
        ({"Optimizer.worst": "self"}, "Optimizer.worst cannot be found: type object 'Optimizer'"),
        ({"Optimizer.number": ""}, "cannot be found: 3 is not a callable object"),
    ],
)
def test_the_first_difference_is_told(module: str, expected: Mapping[str, str], words: str) -> None:
    told = first_difference({f"{module}:{name}": names for name, names in expected.items()})
    assert words in told
    assert bool(told) == bool(words)


def test_a_module_that_is_not_there_is_told() -> None:
    assert "cannot be found: No module named" in first_difference({"no_such_package.main:main": ""})


def test_a_place_is_found() -> None:
    assert find("pathlib:Path.is_file") is Path.is_file


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (f"{VERSION}.6", ""),
        ("0.21.0", f"version 0.21.0 is installed, and {VERSION} is the one that is known"),
        ("0.200.0", "version 0.200.0 is installed"),
    ],
)
def test_the_installed_one_is_looked_at(tmp_path: Path, version: str, words: str) -> None:
    said = ask(install(tmp_path, version))
    assert words in said
    assert bool(said) == bool(words)


def test_a_changed_one_is_told(tmp_path: Path) -> None:
    file = install(tmp_path, f"{VERSION}.7") / "codeflash" / "languages" / "python" / "function_optimizer.py"
    file.write_text(
        file.read_text().replace("exp_type, function_references, normalized_original", "exp_type")
    )
    assert "PythonFunctionOptimizer.process_single_candidate has the parameters (" in ask(tmp_path)


def ask(folder: Path) -> str:
    """Return `why_unknown` of a process that has the package of a folder."""
    code = "from codeflash_parallel.hosts.codeflash.known_interface import why_unknown; print(why_unknown())"
    prefix = f"import sys; sys.path.insert(0, {str(folder)!r}); "
    done = subprocess.run([sys.executable, "-c", prefix + code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_extra_is_pinned_to_the_version_that_is_known() -> None:
    text = (Path(__file__).parents[4] / "pyproject.toml").read_text()
    assert f'"codeflash=={VERSION}.*"' in text
    assert "[codeflash]" in INSTALL


def test_the_installed_codeflash_has_the_interface() -> None:
    pytest.importorskip("codeflash.main", reason="codeflash is not installed: nothing to compare with")
    assert first_difference(EXPECTED) == ""
