"""From a run to the changed file: every command as a user meets it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from expectations import assert_expected
from harness import Place, assert_nothing_left, assert_same, git, load_fixture, picture
from page_cases import assert_sound
from test_fixtures import SHOWN, arguments

RIGHT = 'def shout(text):\n    return text.upper().rstrip("!") + "!"\n'
TARGET = ("--function", "words.py::shout")
#: Where values are no matter of a test.
OUTCOMES = ("--compare", "pass-fail", "--output-format", "json")
WRONG_COUNT = "def count_pairs(numbers, total):\n    return len(numbers)\n"


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


@pytest.mark.slow
def test_from_run_to_apply(build: Callable[[str], Place]) -> None:
    """One race for all: the user rewrites history meanwhile; then what is stored is shown, judged again, applied."""
    place = build("clear_winner")
    fixture = load_fixture("clear_winner")
    candidates = place.state / "candidates"
    shutil.copytree(fixture.candidates, candidates)
    (candidates / "wrong.py").write_text(WRONG_COUNT, encoding="utf-8")
    started = place.start(
        "run",
        "--candidates",
        str(candidates),
        *("--function", *fixture.expected["functions"]),
        "-j",
        "2",
        "--seed",
        "7",
    )
    started.wait_until_it_says("behavior")
    rewrite_history(place)
    before = picture(place.repository)
    run = started.finish()
    assert run.status == 0, str(run)
    assert_says_who_won(run.stdout.decode())

    run_id = run.stdout.decode().split("apply ")[1].split()[0]
    assert run_id in place.run("list").stdout.decode()
    shown = place.run("show", run_id, "--candidate", "list_them_first").stdout.decode()
    assert "NOT_FASTER" in shown
    as_stored = place.run("show", "last", "--output-format", "json")
    wrong = {"status": "rejected", "code": "TESTS_FAILED"}
    rules = {**fixture.expected, "candidates": {**fixture.expected["candidates"], "wrong": wrong}}
    assert_expected(rules, as_stored)
    assert_page_shows_the_race(place)
    assert_same(before, picture(place.repository))
    assert git(place.repository, "status", "--porcelain") == ""
    git(place.repository, "fsck", "--strict")
    assert_nothing_left(place)
    assert_applied_once(place, run_id)


def rewrite_history(place: Place) -> None:
    """Amend, expire the reflog and prune, as a user may: the run has its own copy of everything."""
    git(place.repository, "commit", "--quiet", "--amend", "--message", "another one", "--date", "2001-01-01")
    git(place.repository, "reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    git(place.repository, "gc", "--quiet", "--prune=now")


def assert_says_who_won(said: str) -> None:
    """The winner, its diff, and its line profile beside the baseline's."""
    assert "count_seen" in said
    assert "seen.get(total - number, 0)" in said
    assert "for second in numbers[i + 1 :]:" in said


def assert_page_shows_the_race(place: Place) -> None:
    """The page of the stored run: sound, with every round of the winner's confirmation, and the timeline."""
    page = place.state / "page.html"
    assert place.run("report", "--output", str(page)).status == 0
    root = assert_sound(page.read_text(encoding="utf-8"))
    assert {plot.findtext("title") for plot in root.iter("svg")} == {
        *("Speedups over the baseline", "Timeline of the slots"),
    }
    told = place.run("report", "--output-format", "json").document
    winner = next(one for one in told["candidates"] if one["id"] == told["winner"])
    rounds = told["rounds"][told["winner"]]
    assert rounds["stage"] == winner["race"]["stage"] == "confirmation"
    assert len(rounds["seen"]) == winner["race"]["rounds"]
    assert min(rounds["seen"]) < winner["speedup"]["high"]
    stages = {span["stage"] for span in told["timeline"] if span["candidate"] == told["winner"]}
    assert {"checking", "racing"} <= stages


def assert_applied_once(place: Place, run_id: str) -> None:
    """The winner's change goes into the tree, once, and not over something else."""
    applied = place.run("apply", run_id)
    assert applied.status == 0, str(applied)
    assert git(place.repository, "status", "--porcelain").split() == ["M", "pairs.py"]
    assert "seen.get(total - number, 0)" in (place.repository / "pairs.py").read_text(encoding="utf-8")

    assert place.run("apply", run_id).stdout.decode() == "already there: pairs.py\n"

    with (place.repository / "pairs.py").open("a", encoding="utf-8") as file:
        file.write("# something else\n")
    before = picture(place.repository)
    refused = place.run("apply", run_id)
    assert refused.status == 2, str(refused)
    assert "pairs.py" in refused.errors
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)


@pytest.mark.witness
def test_show_says_what_differs(build: Callable[[str], Place]) -> None:
    """The run that its fixture describes, as it is stored."""
    place, fixture = build(SHOWN), load_fixture(SHOWN)
    before = picture(place.repository)
    assert_expected(fixture.expected, place.run(*arguments(fixture, place)))
    assert_same(before, picture(place.repository))
    assert_nothing_left(place)
    shown = place.run("show", "--candidate", "gives_back_its_input").stdout.decode()
    for words in ("VALUE_DIFFERS", "[3, 1, 2]", "[3, 2, 1]", "test_ranking.py::test_rank_runs"):
        assert words in shown
    shown = place.run("show", "last", "--output-format", "json")
    assert_expected(fixture.expected, shown)
    assert {c["code"] for c in shown.document["candidates"]} == {
        *("VALUE_DIFFERS", "TYPE_DIFFERS", "INPUT_MUTATED", "FLOAT_DIFFERS", "NOT_RACED"),
    }


@pytest.mark.witness
def test_kept_slot_reproduces_a_failure(place: Place) -> None:
    """With the order of a set, too: the failure names the word that came first when it was seen."""
    wrong = "def shout(text):\n    return 'HEY' + next(iter({f'<{n}>' for n in range(1000)}))\n"
    (place.state / "wrong.py").write_text(wrong, encoding="utf-8")
    checked = place.run(
        *("check", *TARGET, "--candidates", str(place.state / "wrong.py"), "--keep-slots"),
        *("--output-format", "json"),
    )
    (candidate,) = checked.document["candidates"]
    assert candidate["failures"][0]["id"] == "test_words.py::test_shout"
    said = re.search(r"HEY<\d+>", candidate["failures"][0]["message"])
    assert said, candidate
    assert Path(candidate["kept_slot"], "words.py").read_text(encoding="utf-8").endswith(wrong)
    done = subprocess.run(
        ["sh", "-c", candidate["reproduce"]],
        cwd="/",
        env=dict(place.environment),
        capture_output=True,
        check=False,
    )
    assert b"test_shout" in done.stdout + done.stderr, done
    assert said.group().encode() in done.stdout + done.stderr, done
    assert shlex.split(candidate["reproduce"])

    would = place.run("clean", "--dry-run")
    assert would.status == 0, would
    assert Path(candidate["kept_slot"]).exists()
    assert place.run("clean").status == 0
    assert not Path(candidate["kept_slot"]).exists()
    assert_nothing_left(place)


@pytest.mark.witness
def test_refs_and_a_manifest(own_place: Place) -> None:
    """A branch of the user's, and a manifest on standard input with all three kinds of content."""
    git(own_place.repository, "switch", "--quiet", "--create", "faster")
    path = own_place.repository / "words.py"
    original = path.read_text(encoding="utf-8")
    path.write_text(
        original.replace("result += letter.upper()", "result = result + letter.upper()"), encoding="utf-8"
    )
    patch = git(own_place.repository, "diff")
    git(own_place.repository, "commit", "--quiet", "--all", "--message", "faster")
    git(own_place.repository, "switch", "--quiet", "main")
    before = picture(own_place.repository)
    lines = [
        {"id": "spliced", "replacement": RIGHT, "explanation": "let upper() do it"},
        {"id": "patched", "patch": patch},
        {
            "id": "edited",
            "edits": [{"path": "words.py", "text": original.replace('+ "!"', '+ "?"')}],
            "parent": "spliced",
        },
    ]
    done = subprocess.run(
        own_place.command("check", "--candidates", "-", "--candidate", "faster", "--output-format", "json"),
        cwd=own_place.cwd,
        env=dict(own_place.environment),
        input="\n".join(map(json.dumps, lines)).encode(),
        capture_output=True,
        check=False,
    )
    data = json.loads(done.stdout)
    found = {c["id"]: (c["status"], c["origin"], c["lineage"]) for c in data["candidates"]}
    assert found == {
        "spliced": ("undecided", "replacement", []),
        "patched": ("undecided", "patch", []),
        "edited": ("rejected", "edits", ["spliced"]),
        "faster": ("duplicate", "ref", []),
    }, done.stderr
    assert data["targets"] == ["words.py::shout"]  # no --function: found in the diffs
    assert_same(before, picture(own_place.repository))


@pytest.mark.witness
def test_base_is_another_commit(own_place: Place) -> None:
    """With --base the uncommitted work is left out. Of outcomes, as below: what is compared is no matter of it."""
    (own_place.repository / "words.py").write_text("broken(\n", encoding="utf-8")
    (own_place.state / "right.py").write_text(RIGHT, encoding="utf-8")
    options = ("check", *TARGET, "--candidates", str(own_place.state / "right.py"), *OUTCOMES)
    assert own_place.run(*options).status in {2, 4}
    finished = own_place.run(*options, "--base", "HEAD")
    assert finished.status == 0, finished.document["error"]
    assert finished.document["base"]


@pytest.mark.campaign
def test_extra_tests_are_in_every_slot_and_not_in_the_tree(place: Place) -> None:
    extra = place.state / "generated"
    extra.mkdir()
    (extra / "test_generated.py").write_text(
        "from words import shout\n\n\ndef test_generated():\n    assert shout('a b') == 'A B!'\n",
        encoding="utf-8",
    )
    (place.state / "narrow.py").write_text(
        "def shout(text):\n    return text.replace(' ', '').upper().rstrip('!') + '!'\n", encoding="utf-8"
    )
    options = ("check", *TARGET, "--candidates", str(place.state / "narrow.py"), *OUTCOMES)
    options += ("--output-format", "json")
    assert place.run(*options).document["candidates"][0]["status"] == "undecided"
    before = picture(place.repository)
    finished = place.run(*options, "--extra-tests", str(extra))
    (candidate,) = finished.document["candidates"]
    assert (candidate["code"], len(candidate["tests"]["failed_ids"])) == ("TESTS_FAILED", 1), candidate
    assert "test_generated" in candidate["tests"]["failed_ids"][0]
    assert_same(before, picture(place.repository))


@pytest.mark.campaign
def test_pass_fail_compares_no_values(build: Callable[[str], Place]) -> None:
    place = build("weak_tests")
    fixture = load_fixture("weak_tests")
    options = ("check", "--function", "ranking.py::rank", "--compare", "pass-fail", "--output-format", "json")
    finished = place.run(*options, "--candidates", str(fixture.candidates / "gives_back_its_input.py"))
    data = finished.document
    assert data["compare"] == "pass-fail"
    assert data["candidates"][0]["status"] == "undecided"
    assert data["candidates"][0]["values"]["level"] == "tests"
    assert "pass-fail" in data["summary"]


@pytest.mark.witness
def test_named_tests_only(build: Callable[[str], Place]) -> None:
    place = build("red_baseline")
    fixture = load_fixture("red_baseline")
    options = ("check", *TARGET, "--candidates", str(fixture.candidates), *OUTCOMES)
    by_name = place.run(*options, "--tests", "test_words.py::test_shout")
    by_keyword = place.run(*options, "-k", "not fails")
    assert [f.status for f in (by_name, by_keyword)] == [0, 0], by_name.document["error"]
    assert by_name.document["candidates"][0]["tests"]["expected"] == 1


@pytest.mark.witness
def test_doctor(own_place: Place) -> None:
    (own_place.repository / "pyproject.toml").write_text(
        "[tool.codeflash-parallel]\ntimeout = 3\n", encoding="utf-8"
    )
    finished = own_place.run("doctor", CODEFLASH_PARALLEL_CANDIDATES="3", COLUMNS="200")
    said = finished.stdout.decode()
    assert finished.status == 0, str(finished)
    for words in (
        "python",
        "pytest",
        "git",
        "cores",
        "timeout",
        "pyproject.toml",
        "CODEFLASH_PARALLEL_CANDIDATES",
    ):
        assert words in said, said
