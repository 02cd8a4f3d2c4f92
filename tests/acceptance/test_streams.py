"""What goes where, and one clear line for each bad input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from harness import Finished, Place, assert_nothing_left, assert_same, git, load_fixture, picture

TARGET = ("--function", "words.py::shout")
RIGHT = 'def shout(text):\n    return text.upper().rstrip("!") + "!"\n'


@pytest.fixture
def place(build_once: Callable[[str], Place], tmp_path: Path) -> Place:
    """Return a repository that no test changes, and a folder for state of this test's own."""
    state = tmp_path / "state"
    state.mkdir()
    return replace(build_once("import_error"), state=state)


@pytest.fixture
def own_place(build: Callable[[str], Place]) -> Place:
    """Return a repository for a test that changes it."""
    return build("import_error")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of candidates with one that is right."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    (folder / "right.py").write_text(RIGHT, encoding="utf-8")
    return folder


def assert_one_clear_line(finished: Finished, status: int, words: str) -> None:
    """Nothing on stdout, one error on stderr (and perhaps what to do), no traceback."""
    assert finished.stdout == b"", str(finished)
    lines = [line for line in finished.errors.splitlines() if line.startswith("error: ")]
    assert finished.status == status, str(finished)
    assert len(lines) == 1, finished.errors
    assert words in finished.errors, finished.errors
    assert "Traceback" not in finished.errors


def test_result_on_stdout_progress_on_stderr(place: Place, folder: Path) -> None:
    finished = place.run("check", *TARGET, "--candidates", str(folder))
    out = finished.stdout.decode()
    assert finished.status == 0, finished.errors
    assert "right" in out
    assert "NOT_RACED" in out
    assert "snapshot" in finished.errors
    assert "snapshot" not in out
    assert "\x1b" not in out + finished.errors


@pytest.mark.witness
def test_colour_is_for_terminals(place: Place, folder: Path) -> None:
    quiet = place.run(
        "check", *TARGET, "--candidates", str(folder), NO_COLOR="1", FORCE_COLOR="", TERM="xterm"
    )
    assert b"\x1b" not in quiet.stdout + quiet.stderr


def test_quiet(place: Place, folder: Path) -> None:
    finished = place.run("check", *TARGET, "--candidates", str(folder), "-q")
    assert finished.status == 0
    assert finished.errors == ""
    assert len(finished.stdout.decode().strip().splitlines()) <= 3


def test_json_lines(place: Place, folder: Path) -> None:
    finished = place.run("check", *TARGET, "--candidates", str(folder), "--output-format", "jsonl")
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert [line["seq"] for line in lines[:-1]] == list(
        range(lines[0]["seq"], lines[0]["seq"] + len(lines) - 1)
    )
    assert {line["run_id"] for line in lines} == {lines[-1]["run_id"]}
    assert lines[-1]["candidates"][0]["id"] == "right"


@pytest.mark.witness
def test_closed_stdout(place: Place, folder: Path) -> None:
    """As `| head -0` does."""
    reading, writing = os.pipe()
    os.close(reading)
    import subprocess

    done = subprocess.run(
        place.command("check", *TARGET, "--candidates", str(folder)),
        cwd=place.cwd,
        env=dict(place.environment),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    assert_nothing_left(place)


def test_no_candidates_named(place: Place) -> None:
    assert_one_clear_line(place.run("run", *TARGET), 2, "--candidates")


@pytest.mark.witness
def test_missing_candidates(place: Place) -> None:
    assert_one_clear_line(place.run("run", *TARGET, "--candidates", "nowhere"), 2, "nowhere")


def test_empty_folder(place: Place) -> None:
    """For an empty list nothing is started."""
    empty = place.state / "empty"
    empty.mkdir()
    finished = place.run("run", *TARGET, "--candidates", str(empty), "--output-format", "json")
    assert "baseline" not in finished.errors
    assert finished.status == 1
    assert finished.document["candidates"] == []
    assert finished.document["verdict"] == "none_correct"


def test_no_repository(place: Place, folder: Path) -> None:
    finished = place.run("run", "--project", str(place.state), *TARGET, "--candidates", str(folder))
    assert_one_clear_line(finished, 2, "not in a git repository")


@pytest.mark.witness
@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("shout", "path/in/repo.py::Class.method"),
        ("words.py::whisper", "whisper"),
        ("nowhere.py::shout", "nowhere.py"),
        ("../words.py::shout", "path/in/repo.py::Class.method"),
    ],
)
def test_bad_function(place: Place, folder: Path, function: str, words: str) -> None:
    finished = place.run("run", "--function", function, "--candidates", str(folder))
    assert_one_clear_line(finished, 2, words)


def test_unknown_setting(own_place: Place, folder: Path) -> None:
    text = "[tool.codeflash-parallel]\nparalel_candidates = 2\n"
    (own_place.repository / "pyproject.toml").write_text(text, encoding="utf-8")
    finished = own_place.run("run", *TARGET, "--candidates", str(folder))
    assert_one_clear_line(finished, 2, "paralel_candidates")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--no-such-option",), "--no-such-option"),
        (("-j", "0"), "0"),
        (("--timeout", "soon"), "soon"),
        (("--python", "/no/such/python"), "/no/such/python"),
        (("--base", "no-such-ref"), "no-such-ref"),
        (("--candidate", "no-such-ref"), "no-such-ref"),
    ],
)
def test_bad_options(place: Place, folder: Path, options: tuple[str, ...], words: str) -> None:
    before = picture(place.repository)
    finished = place.run("check", *TARGET, "--candidates", str(folder), *options)
    if options[0] == "--candidate":  # one bad candidate does not stop the others
        assert finished.status == 0, str(finished)
        assert words in finished.stdout.decode()
    else:
        assert_one_clear_line(finished, 2, words)
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


@pytest.mark.witness
@pytest.mark.parametrize(
    "line", ["{not json", "[]", '{"id": "x"}', '{"id": "x", "patch": 3}', '{"id": 1, "patch": ""}']
)
def test_bad_manifest(place: Place, line: str) -> None:
    manifest = place.state / "candidates.jsonl"
    manifest.write_text(f"{json.dumps({'id': 'right', 'replacement': RIGHT})}\n{line}\n", encoding="utf-8")
    finished = place.run("check", *TARGET, "--candidates", str(manifest))
    assert_one_clear_line(finished, 2, "2")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_folder(place: Place, folder: Path) -> None:
    folder.chmod(0)
    try:
        finished = place.run("check", *TARGET, "--candidates", str(folder))
    finally:
        folder.chmod(0o700)
    assert_one_clear_line(finished, 2, "Permission denied")


@pytest.mark.witness
def test_control_characters_in_a_name(place: Place, folder: Path) -> None:
    name = "evil\x1b[2J\x07\n\u202ename"
    (folder / f"{name}.py").write_text(RIGHT.replace(".upper()", ".upper().strip()"), encoding="utf-8")
    (folder / "loud.py").write_text(
        "def shout(text):\n    raise ValueError('\\x1b]0;title\\x07\\x1b[31m \\u202e' + text)\n",
        encoding="utf-8",
    )
    finished = place.run("check", *TARGET, "--candidates", str(folder), "-v")
    said = finished.stdout.decode() + finished.errors
    assert finished.status == 0, str(finished)
    assert not {c for c in said if (ord(c) < 32 and c not in "\n\t") or c in "\x7f\u202e"}
    assert "Traceback" not in finished.errors or "ValueError" in said


@pytest.mark.witness
@pytest.mark.parametrize("size", [40_000, pytest.param(300_000, marks=pytest.mark.campaign)])
def test_huge_patch(place: Place, folder: Path, size: int) -> None:
    lines = "".join(f"+x{n} = {n}\n" for n in range(size))
    patch = f"--- /dev/null\n+++ b/huge.py\n@@ -0,0 +1,{size} @@\n{lines}"
    (folder / "huge.patch").write_text(patch, encoding="utf-8")
    finished = place.run("check", *TARGET, "--candidates", str(folder), "--output-format", "json")
    found = {c["id"]: c["status"] for c in finished.document["candidates"]}
    assert found["right"] == "undecided"
    assert found["huge"] in {"undecided", "rejected", "unappliable"}
    assert_nothing_left(place)


@pytest.mark.witness
def test_patch_that_is_not_utf_8(own_place: Place, folder: Path) -> None:
    (own_place.repository / "latin.py").write_bytes(b'# coding: latin-1\nNAME = "caf\xe9"\n')
    git(own_place.repository, "add", "latin.py")
    git(own_place.repository, "commit", "-q", "-m", "latin")
    (folder / "latin.patch").write_bytes(
        b"--- a/latin.py\n+++ b/latin.py\n@@ -1,2 +1,2 @@\n # coding: latin-1\n"
        b'-NAME = "caf\xe9"\n+NAME = "th\xe9"\n'
    )
    (folder / "random.diff").write_bytes(bytes(range(256)) * 40)
    finished = own_place.run("check", *TARGET, "--candidates", str(folder), "--output-format", "json")
    found = {c["id"]: c["status"] for c in finished.document["candidates"]}
    assert found == {"latin": "undecided", "random": "unappliable", "right": "undecided"}


@pytest.mark.witness
def test_interpreter_without_pytest(place: Place, folder: Path) -> None:
    import subprocess

    venv = place.state / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    finished = place.run(
        "check", *TARGET, "--candidates", str(folder), "--python", str(venv / "bin" / "python")
    )
    assert finished.status == 4
    assert "cannot import pytest" in finished.errors
    assert "Traceback" not in finished.errors


def test_errors_are_documents_for_programs(place: Place) -> None:
    finished = place.run("run", "--function", "nonsense", "--output-format", "json")
    data = finished.document
    assert finished.status == 2
    assert data["error"]["family"] == "usage"
    assert (data["verdict"], data["complete"]) == (None, False)


def test_wrong_git_variables_of_a_hook(place: Place, folder: Path) -> None:
    """We may be started from a git hook of another repository."""
    wrong = {"GIT_DIR": "/nowhere/.git", "GIT_WORK_TREE": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index"}
    before = picture(place.repository)
    finished = place.run("check", *TARGET, "--candidates", str(folder), **wrong)
    assert finished.status == 0, finished.errors
    assert_same(before, picture(place.repository))


def test_fixture_has_what_these_tests_need() -> None:
    assert load_fixture("import_error").expected["functions"] == [TARGET[1]]
