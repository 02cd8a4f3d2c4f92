"""The isolation level that is asked for is had, is said, and what it takes from a baseline is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import FIXTURES, Place, commit_all

_TARGET = ("--function", "words.py::shout")
_WRITES = """

def test_writes_outside():
    import os, words
    loud = words.shout("a")
    with open(os.environ["FIXTURE_STATE"] + "/made", "w") as file:
        file.write(loud)
"""


@pytest.mark.witness
def test_a_baseline_that_is_red_only_when_confined_names_the_right(build: Callable[[str], Place]) -> None:
    place = build("in_tree_venv")
    del place.environment["CODEFLASH_PARALLEL_ALLOW_WRITE"]
    tests = place.repository / "test_words.py"
    tests.write_text(tests.read_text(encoding="utf-8") + _WRITES, encoding="utf-8")
    commit_all(place.repository)
    common = (
        *_TARGET,
        "--candidates",
        str(FIXTURES / "in_tree_venv" / "candidates"),
        "--new-process",
        "--isolation",
        "landlock",
    )
    options = (*common, "--pass-env", "FIXTURE_STATE", "--output-format", "json")
    red = place.run("check", *options)
    assert red.status == 4, red.document["summary"]
    if red.document["error"]["code"] == "NO_ISOLATION":
        pytest.skip(red.document["error"]["message"])
    assert red.document["error"]["code"] == "RED_BASELINE"
    assert "test_writes_outside" in red.document["error"]["message"]
    assert "--allow-write PATH" in red.document["error"]["hint"]
    green = place.run("check", *options, "--allow-write", str(place.state))
    assert green.status == 0, green.document["error"]
    assert (green.document["isolation"], green.document["isolation_requested"]) == ("landlock", "landlock")


@pytest.mark.parametrize("shared", ["repository", "cache", "."])
def test_what_is_nobodys_to_write_cannot_be_granted(build: Callable[[str], Place], shared: str) -> None:
    place = build("in_tree_venv")
    granted = str(place.cache.parent / shared)
    candidates = str(FIXTURES / "in_tree_venv" / "candidates")
    done = place.run("check", *_TARGET, "--candidates", candidates, "--allow-write", granted)
    assert done.status == 2
    assert b"and nobody may write to" in done.stderr
    assert b"Traceback" not in done.stderr
