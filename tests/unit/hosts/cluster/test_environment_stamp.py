"""Stamps of environments: what an interpreter answers, and in which words two of them differ."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp, differences, stamp_of
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault

STAMP = EnvironmentStamp(
    python="CPython 3.11.4",
    platform="Linux x86_64 glibc 2.36",
    packages={"anyio": "4.8.0", "numpy": "2.0.1"},
)


def having(**packages: str) -> EnvironmentStamp:
    return replace(STAMP, packages=packages)


# --- what an interpreter answers ---------------------------------------------------------------------------


def test_the_stamp_of_a_real_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPED", "secret")
    stamp = stamp_of(Path(sys.executable))
    assert stamp.python == f"{platform.python_implementation()} {platform.python_version()}"
    assert stamp.platform.startswith(f"{platform.system()} {platform.machine()}")
    assert stamp.packages["anyio"] == version("anyio")
    assert stamp.packages["pytest-xdist"] == version("pytest-xdist")
    assert str(stamp) == f"{stamp.python}, {len(stamp.packages)} packages, {stamp.platform}"
    assert "secret" not in repr(stamp)


def test_the_same_interpreter_differs_in_nothing_also_after_a_journey() -> None:
    first, second = (stamp_of(Path(sys.executable)) for _ in range(2))
    assert differences(first, second) == []
    assert from_plain(EnvironmentStamp, to_plain(first)) == second


@pytest.mark.parametrize(
    "script",
    [None, "exit 3", "echo this is no JSON", "kill -9 $$"],
    ids=["missing", "fails", "no JSON", "killed"],
)
def test_an_interpreter_that_does_not_answer(tmp_path: Path, script: str | None) -> None:
    interpreter = tmp_path / "python"
    if script is not None:
        interpreter.write_text(f"#!/bin/sh\n{script}\n")
        interpreter.chmod(0o755)
    with pytest.raises(EnvironmentFault, match="is no Python interpreter that answers") as caught:
        stamp_of(interpreter)
    assert caught.value.code == "BAD_PYTHON"
    assert str(interpreter) in caught.value.message
    assert "\n" not in caught.value.message


# --- in which words they differ ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (STAMP, []),
        (replace(STAMP, python="CPython 3.12.1"), ["it has CPython 3.12.1, not CPython 3.11.4"]),
        (
            replace(STAMP, platform="Linux aarch64 glibc 2.36"),
            ["it is Linux aarch64 glibc 2.36, not Linux x86_64 glibc 2.36"],
        ),
        (having(anyio="4.8.0"), ["numpy 2.0.1 is missing"]),
        (having(anyio="4.8.0", numpy="1.26.4"), ["numpy is 1.26.4, not 2.0.1"]),
        (
            having(anyio="4.8.0", numpy="2.0.1", trio="0.26"),
            ["trio 0.26 is there, and not here"],
        ),
        (
            having(numpy="1", zlib="3"),
            ["anyio 4.8.0 is missing, numpy is 1, not 2.0.1, zlib 3 is there, and not here"],
        ),
    ],
)
def test_differences_in_words(found: EnvironmentStamp, said: list[str]) -> None:
    assert differences(STAMP, found) == said


def test_of_many_packages_five_are_named() -> None:
    many = {f"p{number}": "1" for number in range(9)}
    (said,) = differences(replace(STAMP, packages=many), replace(STAMP, packages={}))
    assert said == ", ".join(f"p{number} 1 is missing" for number in range(5)) + " and 4 more"
    five = {name: many[name] for name in list(many)[:5]}
    (said,) = differences(replace(STAMP, packages=five), replace(STAMP, packages={}))
    assert "more" not in said


def test_every_kind_of_difference_is_a_clause_of_its_own() -> None:
    found = EnvironmentStamp(python="PyPy 3.11.1", platform="Darwin arm64")
    assert len(differences(STAMP, found)) == 3
