"""Whatever an editable installation points at: a run in a slot imports the slot's code, and writes nothing outside."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
from runner_sessions import SessionRun, run_session, write_files

from codeflash_parallel.sandbox.runner_command import install_runner

SETUPTOOLS = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
version = "1.0"
"""
HATCHLING = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "demo"
version = "1.0"
"""
PACKAGE = {
    "__init__.py": "PLACE = 'user'\n",
    "sub.py": "PLACE = 'user'\n",
    "deep/__init__.py": "",
    "deep/leaf.py": "from .. import sub\nPLACE = sub.PLACE\n",
}
SUITE = """
import importlib.metadata, multiprocessing, os, subprocess, sys
import pytest
{imports}
MODULES = [{modules}]

@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_place(module):
    assert module.PLACE == "slot"
    assert module.__file__.startswith(os.path.dirname(__file__))

@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_child(module):
    code = "import importlib; print(importlib.import_module(%r).PLACE)" % module.__name__
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert child.stdout.strip() == "slot"

def test_spawn():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(place_of, [module.__name__ for module in MODULES]) == ["slot"] * len(MODULES)

def place_of(name):
    return importlib.import_module(name).PLACE
import importlib

def test_metadata():
    assert importlib.metadata.version("demo") == "1.0"
"""


def package(folder: str) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in PACKAGE.items()}


def suite(*modules: str) -> dict[str, str]:
    imports = "\n".join(f"import {module}" for module in modules)
    return {"test_places.py": SUITE.format(imports=imports, modules=", ".join(modules))}


MODULES = ("demo", "demo.sub", "demo.deep.leaf")
LAYOUTS: dict[str, dict[str, str]] = {
    "setuptools, src": {"pyproject.toml": SETUPTOOLS, **package("src/demo"), **suite(*MODULES)},
    "setuptools, flat": {
        "pyproject.toml": SETUPTOOLS + '[tool.setuptools]\npackages = ["demo", "demo.deep"]\n',
        **package("demo"),
        **suite(*MODULES),
    },
    "setuptools, flat in a folder of another name": {
        "pyproject.toml": SETUPTOOLS
        + '[tool.setuptools]\npackages = ["demo", "demo.deep"]\npackage-dir = {demo = "lib/code"}\n',
        **package("lib/code"),
        **suite(*MODULES),
    },
    "setuptools, a module beside others": {
        "pyproject.toml": SETUPTOOLS
        + '[tool.setuptools]\npy-modules = ["demo"]\npackage-dir = {"" = "lib"}\n',
        "lib/demo.py": "PLACE = 'user'\n",
        **suite("demo"),
    },
    "setuptools, a namespace": {
        "pyproject.toml": SETUPTOOLS
        + '[tool.setuptools]\npackages = ["space.demo", "space.demo.deep"]\n'
        + 'package-dir = {"space.demo" = "lib/demo"}\n',
        **package("lib/demo"),
        **suite("space.demo", "space.demo.sub", "space.demo.deep.leaf"),
    },
    "hatchling, src": {
        "pyproject.toml": HATCHLING + '[tool.hatch.build.targets.wheel]\npackages = ["src/demo"]\n',
        **package("src/demo"),
        **suite(*MODULES),
    },
    "hatchling, exact": {
        "pyproject.toml": HATCHLING
        + '[tool.hatch.build]\ndev-mode-exact = true\n[tool.hatch.build.targets.wheel]\npackages = ["lib/demo"]\n',
        **package("lib/demo"),
        **suite(*MODULES),
    },
}

#: Left to `nox -s campaign`: a path is one whatever lies below it, and finders are tried with names of their own.
PLAIN = ("setuptools, flat", "setuptools, a module beside others", "hatchling, src")

#: Layouts whose children find the slot only through our guard: their package has another name than its folder.
ONLY_GUARDED = {"setuptools, flat in a folder of another name", "setuptools, a namespace"}
#: One that is guarded and one that has finders of its own are in the gate.
WHERE = {
    **dict.fromkeys(PLAIN, pytest.mark.campaign),
    **dict.fromkeys(
        ("setuptools, src", "setuptools, flat in a folder of another name", "hatchling, exact"),
        pytest.mark.witness,
    ),
}


@pytest.fixture(scope="session")
def build_tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The build backends of today, apart from this environment."""
    folder = tmp_path_factory.mktemp("tools")
    command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder)]
    done = subprocess.run(
        [*command, "setuptools>=70.1", "hatchling", "editables"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the package index cannot be reached: {done.stderr[-300:]}")
    return folder


def make_environment(folder: Path) -> Path:
    """Make a virtual environment that sees pytest, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    # After all others in the alphabet: what is installed editable must come first.
    pth = folder / "lib" / version / "site-packages" / "zzz-pytest.pth"
    pth.write_text(sysconfig.get_paths()["purelib"] + "\n")
    return folder / "bin" / "python"


def install_editable(python: Path, user: Path, tools: Path) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    done = subprocess.run(
        [*command, "--no-build-isolation", "-e", str(user)],
        env={**os.environ, "PYTHONPATH": str(tools), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (site_packages,) = python.parent.parent.glob("lib/python*/site-packages")
    # What an exact installation of hatchling's needs at run time.
    shutil.copytree(tools / "editables", site_packages / "editables")


def make_slot(user: Path, slot: Path) -> Path:
    """Copy a checkout without its environment; in the copy every place is the slot's."""
    shutil.copytree(user, slot, ignore=shutil.ignore_patterns(".venv", "build", "*.egg-info"))
    for path in slot.rglob("*.py"):
        path.write_text(
            path.read_text(encoding="utf-8").replace("PLACE = 'user'", "PLACE = 'slot'"), encoding="utf-8"
        )
    return slot


def state(root: Path) -> dict[str, tuple[int, int]]:
    found = [root, *root.rglob("*")]
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}


def run_in_slot(tmp_path: Path, user: Path, python: Path, **fields: object) -> SessionRun:
    slot = make_slot(user, tmp_path / "slot")
    before = state(user)
    run = run_session(tmp_path, slot, user_root=user, python=str(python), **fields)
    assert state(user) == before, "the user's tree is as it was"
    return run


@pytest.mark.parametrize("layout", [pytest.param(name, marks=WHERE.get(name, ())) for name in LAYOUTS])
def test_an_editable_installation_leads_into_the_slot(tmp_path: Path, build_tools: Path, layout: str) -> None:
    user = write_files(tmp_path / "user", LAYOUTS[layout])
    python = make_environment(user / ".venv")
    install_editable(python, user, build_tools)
    target = next(name for name in LAYOUTS[layout] if name.endswith(("sub.py", "lib/demo.py")))
    plain = subprocess.run([python, "-c", "import demo"], cwd="/", capture_output=True, check=False)
    assert plain.returncode == 0 or "space" in LAYOUTS[layout]["test_places.py"]
    run = run_in_slot(tmp_path, user, python, prove=[target])
    failed = {name for name, outcome in run.outcomes.items() if outcome != "passed"}
    if layout in ONLY_GUARDED:
        failed = {name for name in failed if "child" not in name}
    assert not failed, run.output
    assert run.named("remapped")
    assert not run.named("outside")
    digest = hashlib.sha256((tmp_path / "slot" / target).read_bytes()).hexdigest()
    assert {(r["path"], r["digest"]) for r in run.named("source")} == {(target, digest)}
    assert list((tmp_path / "slot").rglob("*.pyc")), "bytecode is written inside the slot"


@pytest.mark.witness
def test_workers_of_xdist_are_led_into_the_slot(tmp_path: Path, build_tools: Path) -> None:
    pytest.importorskip("xdist")
    files = {**LAYOUTS["setuptools, flat"], "conftest.py": "import demo\nassert demo.PLACE == 'slot'\n"}
    # The project is a plugin itself: it is imported before all conftests.
    files["pyproject.toml"] += '[project.entry-points.pytest11]\ndemo = "demo"\n'
    user = write_files(tmp_path / "user", files)
    python = make_environment(user / ".venv")
    install_editable(python, user, build_tools)
    environment = {"PYTEST_ADDOPTS": "-p xdist.plugin -p demo"}
    run = run_in_slot(tmp_path, user, python, workers=2, environment=environment, prove=["demo/__init__.py"])
    assert set(run.outcomes.values()) == {"passed"}, run.output
    assert "2 workers" in run.output
    assert not run.named("outside")
    assert len(run.named("source")) == 3, "the controller and each worker"


def with_pth(tmp_path: Path, files: Mapping[str, str], line: str) -> tuple[Path, Path]:
    user = write_files(tmp_path / "user", files)
    python = make_environment(user / "venv")
    (site_packages,) = (user / "venv" / "lib").glob("python*/site-packages")
    (site_packages / "demo.pth").write_text(line.format(user=user) + "\n")
    return user, python


PLACES = "import {0}\ndef test_place(): assert {0}.PLACE == 'slot'\n"


def test_a_package_that_a_pth_file_imports_is_imported_again(tmp_path: Path) -> None:
    files = {**package("src/demo"), "test_it.py": PLACES.format("demo.deep.leaf")}
    user, python = with_pth(
        tmp_path, files, "import sys; sys.path.insert(0, '{user}/src'); import demo.deep.leaf"
    )
    run = run_in_slot(tmp_path, user, python)
    assert run.outcomes == {"test_place": "passed"}, run.output


def test_an_old_style_namespace_is_extended_into_the_slot(tmp_path: Path) -> None:
    files = {"src/space/demo.py": "PLACE = 'user'\n", "test_it.py": PLACES.format("space.demo")}
    line = (
        "import sys, types; m = sys.modules.setdefault('space', types.ModuleType('space')); "
        "m.__path__ = ['{user}/src/space']"
    )
    user, python = with_pth(tmp_path, files, line)
    run = run_in_slot(tmp_path, user, python)
    assert run.outcomes == {"test_place": "passed"}, run.output


def test_an_installation_of_the_old_style_keeps_its_metadata(tmp_path: Path) -> None:
    suite = PLACES.format("demo.sub") + (
        "def test_metadata():\n"
        "    from importlib.metadata import distributions, version\n"
        "    assert version('demo') == '1.0'\n"
        "    assert [d.metadata['Name'] for d in distributions()].count('demo') == 1\n"
    )
    files = {**package("src/demo"), "test_it.py": suite}
    files["src/demo.egg-info/PKG-INFO"] = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    user, python = with_pth(tmp_path, files, "{user}/src")
    run = run_in_slot(tmp_path, user, python)
    assert not list((tmp_path / "slot").rglob("*.egg-info")), "ignored files are not in the slot"
    assert set(run.outcomes.values()) == {"passed"}, run.output


def test_a_hard_coded_path_is_caught_by_the_guard(tmp_path: Path) -> None:
    user = tmp_path / "user"
    suite = f"import sys\nsys.path.insert(0, {str(user / 'src')!r})\n" + PLACES.format("demo.sub")
    write_files(user, {**package("src/demo"), "test_it.py": suite})
    run = run_in_slot(tmp_path, user, Path(sys.executable))
    assert run.outcomes == {"test_place": "passed"}, run.output


def test_the_same_through_a_symbolic_link(tmp_path: Path) -> None:
    user, link = tmp_path / "user", tmp_path / "link"
    suite = f"import sys\nsys.path.insert(0, {str(link / 'src')!r})\n" + PLACES.format("demo.sub")
    write_files(user, {**package("src/demo"), "test_it.py": suite})
    link.symlink_to(user)
    run = run_in_slot(tmp_path, user, Path(sys.executable))
    assert run.outcomes == {"test_place": "passed"}, run.output


def test_what_only_the_users_tree_has_is_refused_and_told(tmp_path: Path) -> None:
    user = tmp_path / "user"
    suite = f"import sys\nsys.path.insert(0, {str(user / 'build')!r})\nimport demo\ndef test_a(): pass\n"
    write_files(user, {"build/demo.py": "PLACE = 'user'\n", "test_it.py": suite})
    run = run_in_slot(tmp_path, user, Path(sys.executable))
    assert run.outcomes == {"test_it.py": "collect failed"}
    assert run.one("outside") == {"t": "outside", "module": "demo", "path": str(user / "build" / "demo.py")}
    assert "outside of the worktree" in run.one("phase")["message"]


def test_stale_bytecode_never_runs(tmp_path: Path) -> None:
    files = {"mod.py": "PLACE = 'user'\n", "test_it.py": PLACES.format("mod")}
    root = write_files(tmp_path / "root", files)
    stamp = (root / "mod.py").stat()
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(root)], check=True)
    # The same size and the same time: Python itself would run the old code.
    (root / "mod.py").write_text("PLACE = 'slot'\n")
    os.utime(root / "mod.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert run_session(tmp_path, root).outcomes == {"test_place": "failed"}
    run = run_session(tmp_path, root, prove=["mod.py"])
    assert run.outcomes == {"test_place": "passed"}
    assert run.one("source")["digest"] == hashlib.sha256(b"PLACE = 'slot'\n").hexdigest()


def test_proven_test_files_keep_rewritten_assertions(tmp_path: Path) -> None:
    files = {"test_it.py": "def test_a(): assert [1] == [2]\n", "conftest.py": "import pytest\n"}
    root = write_files(tmp_path / "root", files)
    run = run_session(tmp_path, root, prove=["test_it.py", "conftest.py"])
    failed = next(r for r in run.named("phase") if r["outcome"] == "failed")
    assert "At index 0 diff: 1 != 2" in failed["message"]
    assert {r["path"] for r in run.named("source")} == {"test_it.py", "conftest.py"}


@pytest.mark.parametrize("mode", ["prepend", "append", "importlib"])
def test_every_import_mode_is_proven(tmp_path: Path, mode: str) -> None:
    files = {**package("src/demo"), "tests/test_it.py": "import demo.sub\ndef test_a(): pass\n"}
    files["pytest.ini"] = f"[pytest]\npythonpath = src\naddopts = --import-mode={mode} --doctest-modules\n"
    root = write_files(tmp_path / "root", files)
    run = run_session(tmp_path, root, prove=["src/demo/sub.py"], args=["src", "tests"])
    assert "passed" in run.outcomes.values()
    assert {r["path"] for r in run.named("source")} == {"src/demo/sub.py"}


def test_a_slot_inside_the_users_tree_is_the_slots(tmp_path: Path) -> None:
    user = write_files(tmp_path / "user", {**package("src/demo")})
    slot = make_slot(user, user / ".cache" / "slot")
    write_files(slot, {"test_it.py": PLACES.format("demo.sub"), "pytest.ini": "[pytest]\npythonpath = src\n"})
    (user / ".cache" / "private").mkdir()
    run = run_session(user / ".cache", slot, user_root=user, runner=install_runner(user / ".cache" / "cache"))
    assert run.outcomes == {"test_place": "passed"}, run.output


def test_other_import_hooks_keep_their_say(tmp_path: Path) -> None:
    conftest = """
import importlib.machinery, sys
class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, *, _optimize=-1):
        source = data if isinstance(data, bytes) else None
        assert source is not None
        return super().source_to_code(source.replace(b"plain", b"hooked"), path)
class Finder:
    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if name == "mod":
            spec.loader = Loader(name, spec.origin)
            return spec
sys.meta_path.insert(0, Finder())
"""
    files = {"conftest.py": conftest, "mod.py": "PLACE = 'plain'\n"}
    files["test_it.py"] = "import mod\ndef test_a(): assert mod.PLACE == 'hooked'\n"
    run = run_session(tmp_path, write_files(tmp_path / "root", files), prove=["mod.py"])
    assert run.outcomes == {"test_a": "passed"}, run.output
    assert run.one("source")["path"] == "mod.py"
