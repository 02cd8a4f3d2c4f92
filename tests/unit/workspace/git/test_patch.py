"""Diffs of our own say what git's say: git applies them, and finds the same lines changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from effort import TIMES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeflash_parallel.workspace.git.patch import ABSENT, file_diff

LINES = st.lists(st.sampled_from(["a", "b", "", "\ta", "é", "a\r", "-- x", "++ y"]), max_size=40)
TEXTS = st.tuples(LINES, st.booleans()).map(lambda t: "\n".join(t[0]) + ("\n" if t[0] and t[1] else ""))
PLAIN = "100644"


def apply(folder: Path, diff: str) -> None:
    subprocess.run(
        ["git", "-c", "core.quotepath=true", "apply", "--whitespace=nowarn", "-"],
        cwd=folder,
        input=diff.encode(),
        check=True,
        capture_output=True,
    )


def changed_lines(diff: str) -> int:
    return sum(line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"} for line in diff.splitlines())


@settings(max_examples=75 * TIMES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=TEXTS, new=TEXTS)
def test_git_applies_it(tmp_path: Path, old: str, new: str) -> None:
    if old == new:
        return
    file = tmp_path / "file.txt"
    file.write_bytes(old.encode())
    apply(tmp_path, file_diff("file.txt", old.encode(), new.encode(), PLAIN, PLAIN))
    assert file.read_bytes() == new.encode()


@pytest.mark.parametrize("name", ["plain.py", "with space.py", 'quo"te.py', "tab\t.py", "é/ü.py", "a\\b.py"])
def test_any_name_made_changed_and_removed(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    for old, new in [(None, b"one\n"), (b"one\n", b"two"), (b"two", None), (None, b""), (b"", None)]:
        modes = [ABSENT if data is None else PLAIN for data in (old, new)]
        apply(tmp_path, file_diff(name, old, new, modes[0], modes[1]))
        assert (file.read_bytes() if file.exists() else None) == new


def test_it_is_no_longer_than_git_s(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(500))
    new = old.replace("line 250\n", "").replace("line 10\n", "line ten\n") + "last\n"
    (tmp_path / "old").write_text(old)
    (tmp_path / "new").write_text(new)
    command = ["git", "diff", "--no-index", "old", "new"]
    git = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    ours = file_diff("new", old.encode(), new.encode(), PLAIN, PLAIN)
    assert ours.count("\n@@ ") == git.count("\n@@ ") == 3
    assert changed_lines(ours) == changed_lines(git) == 4


def test_what_differs_everywhere_is_replaced(tmp_path: Path) -> None:
    old = "".join(f"old {number}\n" for number in range(2_100)).encode()
    new = old.replace(b"old", b"new")
    (tmp_path / "big").write_bytes(old)
    apply(tmp_path, file_diff("big", old, new, PLAIN, PLAIN))
    assert (tmp_path / "big").read_bytes() == new


def test_bytes_that_are_no_text_are_not_shown() -> None:
    assert file_diff("x", b"\0a", b"\0b", PLAIN, PLAIN).endswith("Binary files a/x and b/x differ\n")
