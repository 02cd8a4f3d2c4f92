"""The journal of a run: lines that cannot be mistaken, torn ends, damage, and what is recollected."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.config.settings_json import settings_document, settings_of
from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.repair.provider_protocol import Answer
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    FileText,
    FileTexts,
    GitRef,
    PatchText,
    Replacement,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.check_evidence import FailedTest, FirstDifference
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.line_profile import LineProfile, LineTiming
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.run.resumed_journal import mode_of, must_have_same_settings
from codeflash_parallel.run.store.journal import NAME, Journal, is_alive, look_into
from codeflash_parallel.run.store.journal_events import (
    SCHEMA,
    Answered,
    Begun,
    Checked,
    Ended,
    Ending,
    Grounded,
    Happened,
    Look,
    Prepared,
    Profiled,
    Provider,
    Request,
    Resumed,
    Snapshotted,
    SourceEnded,
    Spending,
    Submitted,
    key_of,
    made_of,
    prepared,
)
from codeflash_parallel.run.store.journal_lines import NewerJournal, line_of, read_lines
from codeflash_parallel.run.store.journal_state import recollect

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1, calls=(0, 3)),), cores=(0, 1))


def begun(**fields: object) -> Begun:
    known = {
        "schema": SCHEMA,
        "run_id": "r",
        "version": "1",
        "repository": "/r",
        "project": ".",
        "races": True,
    }
    known |= {"seed": 7, "expected": 2, "settings": settings_document(Settings())}
    return Begun(**{**known, **fields})  # type: ignore[arg-type]


def submission(name: str, text: str = "x") -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=text))


def checked(name: str, look: Look = Look.SCREEN, code: Code = Code.OK) -> Checked:
    outcome = CheckOutcome(
        code=code,
        reason="why",
        failures=(FailedTest(id="t", phase="call", message="\ud800 no text"),),
        difference=FirstDifference(target="t", test="t", call=0, inputs="1", expected="2", got="3"),
        timings_ms={"calls": 0.1},
    )
    spent = Spending(ns={"queue_ns": 1, "held_ns": 2}, steps_ms={"start": 0.5})
    return Checked(key=key_of(submission(name)), look=look, outcome=outcome, spent=spent, notes=("n",))


SNAPSHOT = Snapshotted(commit="c", tree="t", base="", ignored_left_out=("a",), protected=(), extra_tests="")
ANSWER = Answered(
    request=Request.REPAIR,
    about=("k",),
    answers=(Answer(content=FileTexts(files=(FileText(path="p", text=None),)), parent="a"),),
)
EVENTS: tuple[Happened, ...] = (
    begun(repairer=Provider(argv=("a", "b"), cwd="/")),
    Submitted(submission=submission("a")),
    Submitted(submission=Submission(id=CandidateId("b"), content=PatchText(patch="\ud8ff\n\x00"))),
    SourceEnded(),
    SNAPSHOT,
    Grounded(key="g"),
    Prepared(key="k", refused="DOES_NOT_APPLY", reason="no"),
    checked("a"),
    checked("a", Look.REST, Code.TESTS_FAILED),
    ANSWER,
    Profiled(
        key="p",
        profile=LineProfile(tracer="t", lines=(LineTiming(path="p", line=1, hits=2, time_ns=3, text="é"),)),
    ),
    Resumed(version="1"),
    Ended(ending=Ending.INTERRUPTED, code="SIGINT"),
)
WHOLE = b"".join(map(line_of, EVENTS))


def test_every_event_comes_back_as_it_was() -> None:
    read = read_lines(WHOLE)
    assert read.events == EVENTS
    assert (read.damage, read.torn, read.good_bytes) == ("", b"", len(WHOLE))


@given(st.integers(len(line_of(EVENTS[0])), len(WHOLE)))
def test_a_torn_end_is_left_out_and_all_before_it_holds(length: int) -> None:
    read = read_lines(WHOLE[:length])
    assert read.damage == ""
    assert read.events == EVENTS[: len(read.events)]
    assert WHOLE[:length] == WHOLE[: read.good_bytes] + read.torn
    assert b"\n" not in read.torn


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
@example(0, 32)  # a digit of a checksum becomes a capital one
def test_no_changed_byte_is_believed(place: int, by: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= by
    read = read_lines(bytes(data))
    assert read.events == EVENTS[: len(read.events)]
    assert len(read.events) < len(EVENTS)


def test_a_bad_line_before_a_good_one_is_damage_and_named() -> None:
    lines = WHOLE.splitlines(keepends=True)
    lines[3] = b"00000000 {}\n"
    assert read_lines(b"".join(lines)).damage == "line 4 is damaged"


def test_a_line_that_means_nothing_is_damage() -> None:
    bad = line_of(begun()).replace(b"Begun", b"Begin")
    import zlib

    text = bad.partition(b" ")[2].rstrip(b"\n")
    assert "line 1" in read_lines(b"%08x %s\n" % (zlib.crc32(text), text)).damage


def test_a_run_goes_on_as_far_as_it_was_to_go() -> None:
    wanted = {"check": {"races": False}, "time": {"refines": False}, "race": {}}
    for mode, fields in wanted.items():
        (event,) = read_lines(line_of(begun(**fields))).events
        assert isinstance(event, Begun)
        assert mode_of(event) == mode


def test_a_later_schema_is_refused_and_nothing_else_of_it_read() -> None:
    with pytest.raises(NewerJournal) as caught:
        read_lines(line_of(begun(schema=SCHEMA + 1)) + b"whatever")
    assert caught.value.args == (SCHEMA + 1,)


def test_what_is_recollected() -> None:
    known = recollect(EVENTS)
    assert [one.id for one in known.submissions] == ["a", "b"]
    assert known.is_whole
    assert known.source_ended
    assert known.judged == 1
    assert known.checks[key_of(submission("a")), Look.REST].outcome.code is Code.TESTS_FAILED
    assert known.answers[Request.REPAIR, ("k",)] == ANSWER.answers
    assert known.ended == EVENTS[-1]
    assert not known.is_finished


def test_findings_on_another_ground_do_not_count_and_answers_do() -> None:
    repeats = Prepared(key="d", duplicate_of="a")
    events = (*EVENTS, repeats, Grounded(key="other"), checked("b"))
    known = recollect(events)
    assert list(known.checks) == [(key_of(submission("b")), Look.SCREEN)]
    assert known.profiles == {}
    assert known.answers
    assert known.prepared["d"].duplicate_of == ""
    assert recollect((*EVENTS, Grounded(key="g"))).judged == 1


def test_a_run_that_goes_on_has_not_ended() -> None:
    ended = (begun(), Ended(ending=Ending.FINISHED))
    assert recollect(ended).is_finished
    assert recollect((*ended, Resumed(version="1"))).ended is None


@pytest.mark.parametrize(
    "made",
    [
        Unappliable(code="DOES_NOT_PARSE", reason="no"),
        Candidate(
            id=CandidateId("a"),
            origin=CandidateOrigin.REPLACEMENT,
            edits=(
                Edit(path="p", old_digest=None, new=b"\x00\xff", executable=True),
                Edit(path="q", old_digest="d", new=None),
            ),
            diff="+\ud800",
        ),
    ],
)
def test_what_a_submission_became_comes_back(made: Candidate | Unappliable) -> None:
    (event,) = read_lines(line_of(begun()) + line_of(prepared("k", made, ""))).events[1:]
    assert isinstance(event, Prepared)
    assert made_of(event, submission("a")) == made


def test_keys_differ_by_name_and_by_content() -> None:
    several = [
        submission("a"),
        submission("b"),
        submission("a", "y"),
        replace(submission("a"), explanation="z"),
    ]
    several.append(Submission(id=CandidateId("a"), content=GitRef(ref="x")))
    assert len({key_of(one) for one in several}) == len(several)


def test_settings_come_back() -> None:
    settings = Settings(
        functions=("a.py::f",), compare=ComparisonMode.PASS_FAIL, wall_budget=1.5, keep_slots=True
    )
    assert settings_of(settings_document(settings)) == settings
    assert settings_of(settings_document(settings), wall_budget=2.0).wall_budget == 2.0


def test_settings_that_change_a_verdict_may_not_differ() -> None:
    known = recollect((begun(settings=settings_document(Settings(timeout=3.0))),))
    must_have_same_settings(known, Settings(timeout=3.0, wall_budget=9.0, cache_dir="elsewhere"))
    with pytest.raises(UsageError, match="timeout") as caught:
        must_have_same_settings(known, Settings())
    assert caught.value.code == "OTHER_SETTINGS"


def test_settings_of_another_version_are_refused() -> None:
    with pytest.raises(EnvironmentFault, match="unheard_of"):
        settings_of({"unheard_of": 1})


# --- on disk ---------------------------------------------------------------------------------------------


def fits(_known: object) -> None:
    """Everything fits."""


def written(run_dir: Path, data: bytes) -> Path:
    run_dir.mkdir()
    (run_dir / NAME).write_bytes(data)
    return run_dir


def test_a_journal_belongs_to_one_process_at_a_time(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    journal = Journal.begin(run_dir)
    journal.note(begun(expected=0))
    assert is_alive(run_dir)
    assert look_into(run_dir).begun.run_id == "r"
    with pytest.raises(UsageError, match="still going on") as caught:
        Journal.go_on(run_dir, fits)
    assert caught.value.code == "RUN_ALIVE"
    journal.close()
    journal.close()
    assert not is_alive(run_dir)
    again = Journal.go_on(run_dir, fits)
    again.close()
    assert look_into(run_dir).resumed == 1


def test_a_journal_has_its_name_when_all_candidates_are_in_it(tmp_path: Path) -> None:
    journal = Journal.begin(tmp_path / "run")
    assert not (tmp_path / "run" / NAME).exists()
    journal.note(begun(expected=1), Submitted(submission=submission("a")))
    journal.close()
    assert look_into(tmp_path / "run").is_whole
    assert [path.name for path in (tmp_path / "run").iterdir()] == [NAME]


def test_what_was_torn_is_gone_when_the_run_goes_on(tmp_path: Path) -> None:
    run_dir = written(tmp_path / "run", WHOLE + b"0123 {torn")
    (run_dir / "races").mkdir()
    draft = run_dir / "races" / ".0001.json-abc"
    draft.write_bytes(b"half")
    Journal.go_on(run_dir, fits).close()
    assert (run_dir / NAME).read_bytes() == WHOLE + line_of(Resumed(version="0.1.0"))
    assert not draft.exists()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (WHOLE[:10] + b"#" + WHOLE[11:], "BAD_JOURNAL"),
        (b"", "BAD_JOURNAL"),
        (line_of(SourceEnded()), "BAD_JOURNAL"),
        (line_of(begun(expected=3)), "BAD_JOURNAL"),
        (line_of(begun(schema=SCHEMA + 1)), "NEWER_JOURNAL"),
        (line_of(begun(expected=0)) + line_of(Ended(ending=Ending.FINISHED)), "RUN_FINISHED"),
    ],
)
def test_what_cannot_be_gone_on_with_is_left_as_it_is(tmp_path: Path, data: bytes, code: str) -> None:
    run_dir = written(tmp_path / "run", data)
    with pytest.raises((EnvironmentFault, UsageError)) as caught:
        Journal.go_on(run_dir, fits)
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert (run_dir / NAME).read_bytes() == data
    assert not is_alive(run_dir)


def test_there_is_no_journal(tmp_path: Path) -> None:
    for read in (look_into, lambda path: Journal.go_on(path, fits)):
        with pytest.raises(UsageError) as caught:
            read(tmp_path)
        assert caught.value.code == "NO_JOURNAL"


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a line is written, then there is no room: the half goes away again."""
    journal = Journal.begin(tmp_path / "run")
    journal.note(begun(expected=0))
    before = (tmp_path / "run" / NAME).read_bytes()
    write = os.write
    sizes = iter([10])

    def full(handle: int, data: bytes) -> int:
        for size in sizes:
            return write(handle, data[:size])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="space"):
            journal.note(SourceEnded())
    assert (tmp_path / "run" / NAME).read_bytes() == before
    journal.note(SourceEnded())
    journal.close()
    assert look_into(tmp_path / "run").source_ended
