"""Policies, limits, and what a confined process keeps to see."""

from __future__ import annotations

import resource
import site
from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel._runner.sandbox import confinement

POLICY: dict[str, Any] = {"level": "landlock", "network": False, "cache": "/cache", "limits": {}}


def test_no_level_is_no_policy() -> None:
    assert confinement.policy_of({}) is None
    assert confinement.policy_of({"isolation": {"level": "none"}}) is None
    assert confinement.policy_of({"isolation": POLICY}) is POLICY


def test_limits_are_lowered_and_never_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, 10))
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: given.append(limit))
    confinement.limit({"open_files": 5, "file_bytes": 20})
    assert given == [(resource.RLIMIT_CORE, (0, 0)), (resource.RLIMIT_NOFILE, (5, 5))]


def test_a_refusal_of_the_kernel_names_the_level() -> None:
    refused = pytest.raises(confinement.ConfinementError, match="landlock is refused: no")
    with refused, confinement._refusals(POLICY):
        raise OSError("no")


def test_files_that_a_spec_names_in_the_cache() -> None:
    spec = {"mode": "tests", "inputs": "/cache/i/inputs", "encoders": [("/cache/e.py", "f")]}
    assert confinement._inputs({**spec, "wrap": "none"}) == (["/cache/e.py", "/cache/i/inputs"], [])
    assert confinement._inputs({**spec, "wrap": "capture"}) == (["/cache/e.py"], ["/cache/i"])


def test_the_interpreter_is_seen_and_the_checkout_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    monkeypatch.syspath_prepend(str(checkout))
    spec = {"user_root": str(checkout), "root": str(tmp_path / "slot"), "isolation": POLICY}
    found = confinement._environment(spec)
    assert str(checkout) not in found
    assert set(filter(lambda path: Path(path).exists(), site.getsitepackages())) <= set(found)


def test_a_path_of_a_mounted_slot_is_found_outside() -> None:
    spec = {"mounts": {"/mounted/slot/tree": "/slots/2/tree"}}
    assert confinement.host_path(spec, "/mounted/slot/tree/a/b.py") == "/slots/2/tree/a/b.py"
    assert confinement.host_path(spec, "/mounted/slot/tree") == "/slots/2/tree"
    assert confinement.host_path(spec, "/mounted/slot/trees") == "/mounted/slot/trees"
    assert confinement.host_path({}, "/mounted/slot/tree") == "/mounted/slot/tree"
