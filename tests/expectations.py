"""What an `expected.toml` may say, and a document held against it.

python tests/expectations.py FIXTURE FILE     # a document that a successful run has written
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness import Finished

#: What is said of a project and of its run, and of one candidate (fixtures/README.md).
OF_A_RUN = frozenset({
    "title", "command", "functions", "options", "exit", "verdict", "winner", "quarantined", "warnings",
    "error_family", "error_message", "environment", "subfolder", "submodule", "venv", "remove", "needs",
    "slow", "witness", "campaign", "candidates",
})  # fmt: skip
OF_A_CANDIDATE = frozenset({"status", "code", "tests_fail", "differing", "unstable"})


def assert_known(expected: Mapping[str, Any]) -> None:
    """Refuse a key that nobody reads: it is misspelt, and what it says would never be looked at."""
    unknown = expected.keys() - OF_A_RUN
    for candidate in expected.get("candidates", {}).values():
        unknown |= candidate.keys() - OF_A_CANDIDATE
    assert not unknown, f"unknown: {sorted(unknown)}"


def assert_expected(expected: Mapping[str, Any], finished: Finished) -> None:
    """Hold a run's document against the expectations."""
    data = finished.document
    said = {c["id"]: f"{c['status']}/{c['code']}: {c['reason']}" for c in data["candidates"]}
    context = f"exit {finished.status}, {data['verdict']}, {data['error']}, {said}\n{finished.errors[-3000:]}"
    if "error_family" in expected:
        assert data["error"] is not None, context
        assert data["error"]["family"] == expected["error_family"], context
        assert expected["error_message"] in data["error"]["message"], context
    else:
        assert data["error"] is None, context
        assert data["complete"], context
        assert said.keys() == expected["candidates"].keys(), context
    for candidate in data["candidates"]:
        assert_candidate(expected["candidates"][candidate["id"]], candidate, context)
    assert finished.status == expected["exit"], context
    assert data["verdict"] == expected.get("verdict"), context
    assert data["winner"] == expected.get("winner"), context
    assert data["quarantined"] == expected.get("quarantined", []), context
    for words in expected.get("warnings", ()):
        assert any(words in warning for warning in data["warnings"]), context


def assert_candidate(expected: Mapping[str, Any], candidate: Mapping[str, Any], context: str) -> None:
    """Hold one candidate against its expectations."""
    assert candidate["status"] in _choices(expected["status"]), context
    assert candidate["code"] in _choices(expected["code"]), context
    assert candidate["reason"].strip(), context
    if "tests_fail" in expected:
        assert (candidate["tests"]["failed"] > 0) == expected["tests_fail"], context
    for name in ("differing", "unstable"):
        if name in expected:
            assert candidate["values"][name] == expected[name], context
    if "differing" in expected:
        assert candidate["values"]["compared"] > 0, context


def _choices(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def main(name: str, document: str) -> None:
    """Hold a file against the expectations of a fixture; an AssertionError says where they differ."""
    from harness import Finished, load_fixture

    finished = Finished(status=0, stdout=Path(document).read_bytes(), stderr=b"")
    assert_expected(load_fixture(name).expected, finished)
    print(f"As {name}/expected.toml says: {document}")


if __name__ == "__main__":
    main(*sys.argv[1:])
