"""Jobs made of candidates: the key names everything that a verdict depends on, and nothing else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from harness import assert_same, git, picture
from projects import FAST_TOTAL, WRONG_TOTAL, make_project

from codeflash_parallel import (
    EvalQueueClient,
    FileText,
    FileTexts,
    GitRef,
    JobKind,
    PatchText,
    Refused,
    Replacement,
    Settings,
    Submission,
    UnknownKind,
    UsageError,
    job_request,
)
from codeflash_parallel.config.settings_reader import RUN_OF, SUBMITTER, submitter_of
from codeflash_parallel.queue.job_builder import mirror_of, remove_unneeded, take_snapshot, task_of
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.snapshot.snapshot import SnapshotRequest

SETTINGS = Settings(functions=("shop/sums.py::total",))


def candidate(code: str = FAST_TOTAL, name: str = "c") -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def key(project: Path, settings: Settings = SETTINGS, kind: str = "check", code: str = FAST_TOTAL) -> str:
    return job_request(kind, project, [candidate(code)], settings, submitter="me").key


def tree(project: Path, **fields: object) -> str:
    """Return the id of the snapshot of a job for a tree."""
    settings = replace(SETTINGS, **fields)  # type: ignore[arg-type]
    request = job_request("check", project, [candidate()], settings, submitter="me")
    return task_of(request.payload).stored.snapshot.commit


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = make_project(tmp_path / "project")
    (made / ".gitignore").write_text("*.so\nbuild/\n*.log\n")
    git(made, "add", ".gitignore")
    git(made, "commit", "--quiet", "-m", "ignore")
    return made


@pytest.mark.slow
def test_a_key_names_what_a_verdict_depends_on(project: Path) -> None:
    mine = key(project)
    assert key(project) == mine
    assert key(project / "shop") == mine
    others = [
        key(project, kind="evaluate"),
        key(project, code=WRONG_TOTAL),
        key(project, replace(SETTINGS, strict=True)),
        key(project, replace(SETTINGS, timeout=99.0)),
    ]
    assert len({mine, *others}) == 5
    places = {"cache_dir": str(project.parent / "cache"), "queue_dir": str(project.parent / "queue")}
    free = replace(SETTINGS, parallel_candidates=3, executor="queue", **places)
    assert key(project, free) == mine


def _edit(project: Path) -> None:
    (project / "shop/sums.py").write_text(FAST_TOTAL)


def _add(project: Path) -> None:
    (project / "new.py").write_text("x = 1\n")


def _remove(project: Path) -> None:
    (project / "tests/test_sums.py").unlink()


def _make_executable(project: Path) -> None:
    (project / "shop/sums.py").chmod(0o755)


def _link(project: Path) -> None:
    (project / "link").symlink_to("shop")


def _build(project: Path) -> None:
    (project / "shop/fast.so").write_bytes(b"\x7fELF")


def _hidden(project: Path) -> None:
    git(project, "update-index", "--assume-unchanged", "shop/sums.py")
    (project / "shop/sums.py").write_text(FAST_TOTAL)


def _skipped(project: Path) -> None:
    git(project, "update-index", "--skip-worktree", "shop/sums.py")
    (project / "shop/sums.py").write_text(FAST_TOTAL)


@pytest.mark.slow
@pytest.mark.parametrize("change", [_edit, _add, _remove, _make_executable, _link, _build, _hidden, _skipped])
def test_a_snapshot_changes_with_the_tree(project: Path, change: Callable[[Path], None]) -> None:
    before = tree(project)
    change(project)
    assert tree(project) != before


def _touch(project: Path) -> None:
    os.utime(project / "shop/sums.py", ns=(1, 1))


def _stage(project: Path) -> None:
    git(project, "add", "-A")


def _commit(project: Path) -> None:
    git(project, "add", "-A")
    git(project, "commit", "--quiet", "--allow-empty", "-m", "more")


def _log(project: Path) -> None:
    (project / "run.log").write_text("ignored, and nobody needs it\n")


def _write_the_same(project: Path) -> None:
    path = project / "shop/sums.py"
    path.write_text(path.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("change", [_touch, _stage, _commit, _log, _write_the_same])
@pytest.mark.parametrize("first", [None, _edit, _add])
def test_a_snapshot_depends_on_nothing_else(
    project: Path, first: Callable[[Path], None] | None, change: Callable[[Path], None]
) -> None:
    if first is not None:
        first(project)
    before = tree(project)
    change(project)
    assert tree(project) == before


def test_a_base_is_what_counts_where_one_is_named(project: Path) -> None:
    before = tree(project, base="HEAD")
    _edit(project)
    assert tree(project, base="HEAD") == before
    _commit(project)
    assert tree(project, base="HEAD") != before
    with pytest.raises(UsageError, match="names no commit"):
        tree(project, base="nowhere")


def test_extra_tests_count(project: Path, tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "test_more.py").write_text("def test_more(): pass\n")
    before = tree(project, extra_tests=str(extra))
    assert before != tree(project)
    (extra / "test_more.py").write_text("def test_more(): assert True\n")
    assert tree(project, extra_tests=str(extra)) != before


def test_a_nested_repository_counts(project: Path) -> None:
    make_project(project / "vendored")
    before = tree(project)
    (project / "vendored/shop/sums.py").write_text(FAST_TOTAL)
    assert tree(project) != before


def test_the_repository_is_only_read(project: Path) -> None:
    _edit(project)
    _add(project)
    _touch(project)
    before = picture(project)
    key(project)
    assert_same(before, picture(project))


CONTENTS = [
    PatchText(patch="--- a/x\n+++ b/x\n\udcff"),
    Replacement(code="x = 1\n"),
    Replacement(code="x = 1\n", function="a.py::f"),
    FileTexts(files=(FileText(path="a.py", text="x\n"), FileText(path="b.py", text=None))),
    GitRef(ref="a" * 40),
]


@pytest.mark.slow
@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
def test_payloads_come_back(project: Path, content: object) -> None:
    submission = Submission(
        id=CandidateId("c"),
        content=content,  # type: ignore[arg-type]
        origin=CandidateOrigin.REPAIR,
        parent=CandidateId("p"),
        explanation="why",
    )
    request = job_request("check", project, [submission], SETTINGS, submitter="me")
    task = task_of(request.payload)
    assert task.candidates == (submission,)
    assert task.repository == str(project)
    assert to_plain(task) == to_plain(task_of(request.payload))


def test_what_is_kept_of_a_tree_is_what_it_was(project: Path, tmp_path: Path) -> None:
    """The snapshot is in the queue's folder, whatever becomes of the tree; encoders are copied with it."""
    (project / "encoders.py").write_text("def encode(value): return 1\n")
    settings = replace(SETTINGS, encoders=("encoders.py::encode",), queue_dir=str(tmp_path / "q"))
    request = job_request("check", project, [candidate()], settings, submitter="me")
    (project / "encoders.py").write_text("changed")
    _edit(project)

    task = task_of(request.payload)
    mirror = mirror_of(tmp_path / "q", request.snapshot)
    kept = git(mirror, "show", f"{task.stored.snapshot.commit}:shop/sums.py")
    assert kept != (project / "shop/sums.py").read_text()
    place, _, name = task.settings["encoders"][0].partition("::")
    assert (Path(place).read_text(), name) == ("def encode(value): return 1\n", "encode")
    assert key(project, replace(settings, encoders=())) != request.key


def test_a_job_of_another_queue_is_refused(project: Path, tmp_path: Path) -> None:
    request = job_request("check", project, [candidate()], replace(SETTINGS, queue_dir=str(tmp_path / "one")))
    with EvalQueueClient(tmp_path / "two") as client, pytest.raises(Refused) as caught:
        client.submit(request)
    assert caught.value.code == "SNAPSHOT_NOT_STORED"


def test_a_ref_is_pinned(project: Path) -> None:
    git(project, "branch", "idea")
    ref = Submission(id=CandidateId("c"), content=GitRef(ref="idea"))
    first = job_request("check", project, [ref], SETTINGS, submitter="me")
    assert task_of(first.payload).candidates[0].content == GitRef(
        ref=git(project, "rev-parse", "idea").strip()
    )
    _commit(project)
    git(project, "branch", "--force", "idea")
    assert job_request("check", project, [ref], SETTINGS, submitter="me").key != first.key


@pytest.mark.parametrize(
    ("kind", "names", "command", "code"),
    [
        ("check", "", (), "NO_CANDIDATES"),
        ("check", "c", ("ls",), "BAD_JOB"),
        ("command", "c", (), "BAD_JOB"),
        ("command", "cd", ("ls",), "BAD_JOB"),
    ],
)
def test_what_makes_no_sense_is_refused(
    project: Path, kind: str, names: str, command: tuple[str, ...], code: str
) -> None:
    candidates = [candidate(name=name) for name in names]
    with pytest.raises(UsageError) as caught:
        job_request(JobKind(kind), project, candidates, SETTINGS, submitter="me", command=command)
    assert caught.value.code == code


def test_an_unknown_kind_is_refused(project: Path) -> None:
    with pytest.raises(UnknownKind):
        job_request("bake", project, [candidate()], SETTINGS, submitter="me")


@pytest.mark.parametrize(
    "payload", ["", "[]", "{}", '{"repository": "/r", "candidates": [{}], "settings": {}}']
)
def test_payloads_of_others_are_refused(payload: str) -> None:
    with pytest.raises(UsageError) as caught:
        task_of(payload)
    assert caught.value.code == "BAD_PAYLOAD"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "code", "message", "hint"),
    [
        ("shop/sums.py::totl", "NO_SUCH_FUNCTION", "shop/sums.py has no function totl.", "Did you mean total?"),
        ("shop/sum.py::total", "NO_SUCH_FUNCTION", "There is no shop/sum.py in the snapshot.", "Did you mean shop/sums.py?"),
        ("shop::total", "BAD_FUNCTION", "--function 'shop::total' is not of the form path/in/repo.py::Class.method.", "Give a path"),
        ("broken.py::f", "NO_SUCH_FUNCTION", "broken.py does not parse: invalid syntax.", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("base", ["", "HEAD"])
def test_a_function_that_is_not_there_is_refused_as_run_refuses_it(
    project: Path, base: str, function: str, code: str, message: str, hint: str
) -> None:
    (project / "broken.py").write_text("def f(:\n")
    settings = replace(SETTINGS, functions=("shop/sums.py::total", function), base=base)
    if base and function.startswith("broken"):
        message, hint = "There is no broken.py in the snapshot.", "Paths are relative"
        (project / "broken.py").unlink()
    with pytest.raises(UsageError) as caught:
        job_request("check", project, [candidate()], settings, submitter="me")
    assert (caught.value.code, caught.value.message) == (code, message)
    assert caught.value.hint.startswith(hint)


def test_a_function_is_looked_for_where_the_snapshot_will_have_it(project: Path, tmp_path: Path) -> None:
    """At the base where one is named, else on the disk; what git hides there may still be found later."""
    _edit(project)
    (project / "shop/more.py").write_text("def more(): pass\n")
    more = replace(SETTINGS, functions=("shop/more.py::more",))
    assert key(project, more)
    git(project, "add", "-A")
    git(project, "commit", "--quiet", "-m", "more")
    assert key(project, replace(more, base="HEAD"))
    (project / "shop/more.py").unlink()
    assert key(project, replace(more, base="HEAD"))
    with pytest.raises(UsageError, match="no shop"):
        key(project, more)
    (project / "shop/filtered.py").write_text("version https://git-lfs.github.com/spec/v1\n")
    git(project, "add", "-A")
    git(project, "commit", "--quiet", "-m", "as a filter stores it")
    assert key(project, replace(SETTINGS, functions=("shop/filtered.py::f",), base="HEAD"))


def test_a_bare_repository_needs_a_base(project: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(project), str(bare))
    with pytest.raises(UsageError, match="is bare: it has no work tree") as caught:
        key(bare)
    assert caught.value.code == "BAD_BASE"
    assert key(bare, replace(SETTINGS, base="HEAD"))


def test_who_hands_in_is_one_rule(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUBMITTER, raising=False)
    monkeypatch.delenv(RUN_OF, raising=False)
    plain = job_request("check", project, [candidate()], SETTINGS)
    assert (plain.submitter, plain.run) == (submitter_of("", {}), "")
    monkeypatch.setenv(SUBMITTER, "agent 7")
    monkeypatch.setenv(RUN_OF, "night")
    named = job_request("check", project, [candidate()], SETTINGS)
    assert (named.submitter, named.run, named.key) == ("agent 7", "night", plain.key)
    given = job_request("check", project, [candidate()], SETTINGS, submitter="ada", run="day")
    assert (given.submitter, given.run) == ("ada", "day")
    with pytest.raises(UsageError, match="submitter must be 1 to 64 printable"):
        job_request("check", project, [candidate()], SETTINGS, submitter="a\nb")


def test_variables_are_asked_for_by_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of the submitter's are in no request: requests are kept in a file."""
    monkeypatch.setenv("DB_URL", "postgres://secret")
    asked = job_request("check", project, [candidate()], replace(SETTINGS, pass_env=("DB_*",)))
    assert asked.pass_env == ("DB_*",)
    assert "secret" not in repr(asked)


DAY_S = 86_400


def test_equal_trees_have_one_snapshot_and_an_edit_makes_another(tmp_path: Path) -> None:
    repository = find_repository(make_project(tmp_path / "project"))
    first, again = (take_snapshot(tmp_path / "q", repository, SnapshotRequest()) for _ in range(2))
    assert first == again
    (tmp_path / "project/shop/sums.py").write_text("edited\n")
    other = take_snapshot(tmp_path / "q", repository, SnapshotRequest())
    assert (other.place, other.snapshot.commit == first.snapshot.commit) == (first.place, False)
    mirror = mirror_of(tmp_path / "q", first.place)
    for stored in (first, other):
        assert git(mirror, "cat-file", "-t", stored.snapshot.commit).strip() == "commit"


def test_what_no_job_needs_is_removed_from_the_day_before_yesterday_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = find_repository(make_project(tmp_path / "project"))
    begun_s = time.time()
    places = []
    for day in range(4):
        monkeypatch.setattr(time, "time", lambda day=day: begun_s + day * DAY_S)
        places.append(take_snapshot(tmp_path / "q", repository, SnapshotRequest()).place)
    remove_unneeded(tmp_path / "q", {places[0]})
    assert [mirror_of(tmp_path / "q", place).exists() for place in places] == [True, False, True, True]
    assert not (tmp_path / "q/snapshots" / places[1]).parent.exists()
    remove_unneeded(tmp_path / "nowhere", ())
