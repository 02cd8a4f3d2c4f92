"""Jobs of which no candidate applies: refused when they are handed in, as far as that is certain by then."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import git
from projects import make_project

from codeflash_parallel import GitRef, JobKind, PatchText, Settings, Submission, UsageError, job_request
from codeflash_parallel.queue.jobs import JobRequest
from codeflash_parallel.result.candidate.candidate_model import CandidateId, Content

#: As the last lines of a file that is there.
PATCH = """--- a/{name}
+++ b/{name}
@@ -1,2 +1,2 @@
 one
-{old}
+three
"""
GOOD = PATCH.format(name="lines.txt", old="two")
OTHER_TEXT = PATCH.format(name="lines.txt", old="four")
NO_FILE = PATCH.format(name="none.txt", old="two")
NEW = (
    "diff --git a/new.log b/new.log\nnew file mode 100644\n--- /dev/null\n+++ b/new.log\n@@ -0,0 +1 @@\n+x\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = make_project(tmp_path / "project")
    (made / "lines.txt").write_text("one\ntwo\n")
    (made / ".gitignore").write_text("*.log\n")
    git(made, "add", ".")
    git(made, "commit", "--quiet", "-m", "lines")
    return made


def handed_in(project: Path, *contents: Content | str, settings: Settings | None = None) -> JobRequest:
    submissions = [
        Submission(id=CandidateId(f"c{n}"), content=PatchText(patch=one) if isinstance(one, str) else one)
        for n, one in enumerate(contents)
    ]
    kind = JobKind.CHECK
    return job_request(kind, project, submissions, settings or Settings(), refuses_inapplicable=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (GitRef(ref="nosuch"), "'nosuch' names no commit"),
        (GitRef(ref=""), "'' names no commit"),
        (GitRef(ref="0" * 40), "names no commit"),
        ("", "There is no patch in it"),
        ("hello\n", "There is no patch in it"),
        ("\udcff\x00@@", "There is no patch in it"),
        ("@@ -1 +1 @@\n-a\n+b\n", "patch fragment without header"),
        (OTHER_TEXT, "patch failed: lines.txt:1"),
        (NO_FILE, "none.txt: No such file"),
        (GOOD[:-9], "corrupt patch"),
    ],
)
def test_a_candidate_that_cannot_apply_is_refused_with_the_code_of_its_verdict(
    project: Path, content: Content | str, said: str
) -> None:
    with pytest.raises(UsageError) as refused:
        handed_in(project, content)
    assert refused.value.code == "DOES_NOT_APPLY"
    assert said in str(refused.value)
    assert "c0" in str(refused.value)


def test_one_that_applies_is_enough_and_the_others_get_their_verdicts(project: Path) -> None:
    assert handed_in(project, OTHER_TEXT, GOOD).key
    assert handed_in(project, GitRef(ref="nosuch"), GitRef(ref="HEAD")).key
    with pytest.raises(UsageError, match="other candidates do not apply either"):
        handed_in(project, OTHER_TEXT, GitRef(ref="nosuch"))


def test_who_does_not_ask_for_it_gets_verdicts(project: Path) -> None:
    submission = Submission(id=CandidateId("c"), content=PatchText(patch=""))
    assert job_request(JobKind.CHECK, project, [submission], Settings()).key


def in_a_folder(project: Path) -> None:
    (project / "part").mkdir()
    (project / "lines.txt").rename(project / "part" / "lines.txt")
    (project / "part" / "pyproject.toml").touch()


def of_windows(project: Path) -> None:
    (project / "lines.txt").write_bytes(b"one\r\ntwo\r\n")


def filtered(project: Path) -> None:
    (project / ".gitattributes").write_text("*.txt filter=broken\n")
    git(project, "config", "filter.broken.clean", "tr a-z A-Z")


@pytest.mark.parametrize("change", [in_a_folder, of_windows, filtered])
def test_what_run_would_apply_is_taken(project: Path, change: object) -> None:
    change(project)  # type: ignore[operator]
    part = project / "part"
    assert handed_in(part if part.exists() else project, GOOD).key


def test_what_only_the_snapshot_can_tell_is_left_until_its_turn(project: Path) -> None:
    (project / "new.log").touch()  # in the way, and in no snapshot
    assert handed_in(project, NEW).key
    (project / "lines.txt").unlink()
    assert handed_in(project, GOOD, settings=Settings(base="HEAD")).key
    (project / ".git" / "info").mkdir(exist_ok=True)
    (project / ".git" / "info" / "sparse-checkout").touch()
    assert handed_in(project, GOOD).key
