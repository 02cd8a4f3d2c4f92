"""`run` and `check` around an engine that only pretends: what goes in, what comes out, and signals."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree as ET

import anyio
import pytest
from page_cases import assert_sound

from codeflash_parallel.cli.main import main
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.events import CandidateFinished, RunFinished, RunStarted
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import (
    SCHEMA_VERSION,
    CandidateResult,
    FailedTest,
    RunFault,
    RunResult,
    Speedup,
    TestCounts,
)
from codeflash_parallel.run import evaluator as engine

WINNER = CandidateResult(
    id=CandidateId("fast"),
    origin=CandidateOrigin.PATCH,
    status=CandidateStatus.WON,
    code=Code.OK,
    reason="Fast.",
    diff="+x\n",
)
LOSER = CandidateResult(
    id=CandidateId("wrong|<b>"),
    origin=CandidateOrigin.PATCH,
    status=CandidateStatus.REJECTED,
    code=Code.TESTS_FAILED,
    reason="It fails.\x1b[2J",
    tests=TestCounts(expected=2, failed=1, missing=1, failed_ids=("t::a",), missing_ids=("t::b",)),
    failures=(FailedTest(id="t::a", phase="call", message="E \x00 boom"),),
)


class Pretended:
    """Stands where the engine's evaluator stands."""

    calls: ClassVar[list[tuple[Path, object, list]]] = []
    signals: tuple[int, ...] = ()

    def __init__(self, project, settings, **_more) -> None:
        self._project, self._settings = project, settings
        self._stopped = anyio.Event()
        self._code = ""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_) -> None:
        return None

    def interrupt(self, code: str) -> None:
        self._code = code
        self._stopped.set()

    async def evaluate(self, submissions, *, repairer, refiner, observers, race) -> RunResult:
        Pretended.calls.append((self._project, self._settings, list(submissions)))
        result = RunResult(
            run_id="r1",
            complete=True,
            verdict=Verdict.WINNER,
            winner=WINNER.id,
            summary=f"{WINNER.id} is twice as fast.",
            candidates=(WINNER, LOSER),
        )
        for event in (
            RunStarted(run_id="r1", slots=1),
            CandidateFinished(run_id="r1", candidate=WINNER.id, result=WINNER),
        ):
            for observer in observers:
                observer(event)
        for number in self.signals:
            os.kill(os.getpid(), number)
            await self._stopped.wait()
            fault = RunFault(family="interrupted", code=self._code, message="The run was interrupted.")
            result = RunResult(run_id="r1", complete=False, error=fault)
        for observer in observers:
            observer(RunFinished(run_id="r1", result=result))
        return result


@pytest.fixture(autouse=True)
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> type[Pretended]:
    monkeypatch.setattr(engine, "Evaluator", Pretended)
    monkeypatch.setattr(Pretended, "calls", [])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "fast.patch").write_text("x")
    return Pretended


RUN = ["run", "--candidates", "c", "--function", "m.py::f"]


def test_a_run_for_people(capsys) -> None:
    assert main(RUN) == 0
    captured = capsys.readouterr()
    assert "winner: " in captured.out
    assert "finish fast won" in captured.err
    assert "\x1b" not in captured.out


def test_quiet(capsys) -> None:
    assert main([*RUN, "-q"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 1
    assert captured.err == ""


def test_settings_reach_the_engine(pretended) -> None:
    main([*RUN, "-j", "3", "--function", "m.py::g", "--tests", "a", "b", "--tests", "c", "--keep-slots"])
    ((project, settings, submissions),) = pretended.calls
    assert project == Path()
    assert settings.parallel_candidates == 3
    assert settings.functions == ("m.py::f", "m.py::g")
    assert settings.tests == ("a", "b", "c")
    assert settings.keep_slots
    assert [s.id for s in submissions] == ["fast"]


def test_a_switch_can_be_taken_back(pretended) -> None:
    main([*RUN, "--new-process", "--no-select", "--stop-after", "2"])
    main([*RUN, "--no-new-process", "--no-select", "--select"])
    given = [(s.new_process, s.no_select, s.stop_after) for _, s, _ in pretended.calls]
    assert given == [(True, True, 2), (False, False, 0)]


def test_json_is_the_only_thing_on_stdout(capsys) -> None:
    assert main([*RUN, "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["winner"] == "fast"


def test_json_lines_end_with_the_document(capsys) -> None:
    assert main([*RUN, "--output-format", "jsonl"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["run_started", "candidate_finished", "run_finished"]
    assert [line["seq"] for line in lines] == [0, 1, 2]
    assert [line["candidate"] for line in lines] == [None, "fast", None]
    assert lines[-1]["schema_version"] == SCHEMA_VERSION
    assert lines[-1]["candidates"][1]["id"] == "wrong|<b>"


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_a_file_instead_of_stdout(form: str, tmp_path: Path, capsys) -> None:
    assert main([*RUN, "-q", "--output-format", form, "--output", "out"]) == 0
    assert capsys.readouterr().out == ""
    assert "fast" in (tmp_path / "out").read_text()


def test_junit_and_markdown(tmp_path: Path) -> None:
    assert main([*RUN, "-q", "--junit-xml", "j.xml", "--markdown", "m.md"]) == 0
    root = ET.parse(tmp_path / "j.xml").getroot()
    suites = {suite.get("name"): suite for suite in root.iter("testsuite")}
    assert suites["fast"].get("failures") == "0"
    assert suites["wrong|<b>"].get("failures") == "3"
    assert {case.get("name") for case in suites["wrong|<b>"].iter("testcase")} == {"verdict", "t::a", "t::b"}
    text = (tmp_path / "m.md").read_text()
    assert "| fast | won |" in text
    assert "wrong\\|\\<b\\>" in text
    assert "```diff\n+x\n```" in text


@pytest.mark.parametrize("speedup", [None, Speedup(estimate=2.0, low=1.9, high=2.1)], ids=["", "timed"])
def test_a_page_and_the_plot_of_a_summary(
    speedup: Speedup | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "WINNER", replace(WINNER, speedup=speedup))
    assert main([*RUN, "-q", "--html", "new/page.html", "--markdown", "m m.md"]) == 0
    assert_sound((tmp_path / "new/page.html").read_text("utf-8"))
    text = (tmp_path / "m m.md").read_text("utf-8")
    plot = tmp_path / "m m.svg"
    assert plot.exists() == (speedup is not None)
    assert (
        "![Speedups over the baseline: fast \\~2.00x \\(1.90-2.10\\).](<m%20m.svg>)" in text
    ) == plot.exists()
    if plot.exists():
        assert ET.parse(plot).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_a_summary_that_is_no_md_file_has_no_plot_beside_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        sys.modules[__name__], "WINNER", replace(WINNER, speedup=Speedup(estimate=2.0, low=1.9, high=2.1))
    )
    assert main([*RUN, "-q", "--markdown", "step_summary"]) == 0
    assert "![" not in (tmp_path / "step_summary").read_text("utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"c", "step_summary"}


def test_an_empty_folder_is_judged_at_once(tmp_path: Path, pretended, capsys) -> None:
    (tmp_path / "none").mkdir()
    assert main(["run", "--candidates", "none", "--output-format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["complete"], data["error"]) == ("none_correct", True, None)
    assert pretended.calls == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_gives_an_incomplete_result(number: int, code: int, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Pretended, "signals", (number,))
    assert main([*RUN, "--output-format", "json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data["complete"] is False
    assert data["error"]["code"] == signal.Signals(number).name
    # All is said: one more must not change the exit status between here and the interpreter's end.
    assert signal.getsignal(number) == signal.SIG_IGN


def test_a_defect_of_the_engine_is_ours(monkeypatch, tmp_path: Path, capsys) -> None:
    async def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(Pretended, "evaluate", broken)
    assert main([*RUN, "--output-format", "json", "--cache-dir", str(tmp_path / "cache")]) == 3
    data = json.loads(capsys.readouterr().out)
    assert data["error"]["family"] == "internal"
    assert str(tmp_path / "cache") in data["error"]["hint"]


@pytest.mark.parametrize(
    "option",
    [
        *(
            "--time-budget=3",
            "--min-speedup=0.1",
            "--indifference=0.1",
            "--max-regression=0.1",
            "--max-cpu-cost=2",
        ),
        *("--ranking=fastest", "--confidence=0.9", "--benchmark=m.py::main", "--benchmark-command=true"),
        *("--refiner=m:f", "--refine-command=true", "--refine-top=1", "--refine-depth=1"),
    ],
)
def test_a_check_refuses_what_it_would_ignore(option: str, pretended, capsys) -> None:
    assert main(["check", *RUN[1:], option]) == 2
    assert "unrecognized arguments" in capsys.readouterr().err
    assert pretended.calls == []


def test_a_check_lets_a_file_speak_of_races(tmp_path: Path, pretended) -> None:
    table = "[tool.codeflash-parallel]\ntime-budget = 3.0\nrefine-command = 'no-such-program'\n"
    (tmp_path / "pyproject.toml").write_text(table)
    assert main(["check", *RUN[1:], "-q"]) == 0
    assert pretended.calls[0][1].time_budget == 3.0


@pytest.mark.parametrize("option", ["--output", "--junit-xml", "--markdown", "--html"])
@pytest.mark.parametrize("place", ["c", "c/fast.patch/below", "c/fast.patch/far/below"])
def test_a_report_that_cannot_be_written_is_noticed_before_the_run(
    option: str, place: str, pretended, capsys
) -> None:
    assert main([*RUN, "-q", option, place]) == 4
    assert f"{place} cannot be written: " in capsys.readouterr().err
    assert pretended.calls == []


def test_a_plot_that_cannot_be_written_is_noticed_before_the_run(tmp_path: Path, pretended, capsys) -> None:
    (tmp_path / "m.svg").mkdir()
    assert main([*RUN, "-q", "--markdown", "m.md"]) == 4
    assert "m.svg cannot be written: Is a directory." in capsys.readouterr().err
    assert pretended.calls == []


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_reports_may_lie_in_new_folders_and_be_devices(form: str, tmp_path: Path, pretended) -> None:
    (tmp_path / "old.md").write_text("old")
    reports = ["--output", "new/far/out", "--junit-xml", "/dev/null", "--markdown", "old.md"]
    assert main([*RUN, "-q", "--output-format", form, *reports]) == 0
    assert (tmp_path / "new/far/out").read_text()
    assert "fast" in (tmp_path / "old.md").read_text()


@pytest.mark.parametrize(
    "repairer", ["no_such_module:name", "no_such_file.py:name", "no_such.module:name", "some words"]
)
def test_a_repairer_that_is_not_there(repairer: str, pretended, capsys) -> None:
    assert main([*RUN, "--repairer", repairer]) == 2
    assert "there is no" in capsys.readouterr().err
    assert pretended.calls == []


def test_a_repairer_that_is_there(tmp_path: Path, pretended) -> None:
    (tmp_path / "mender.py").write_text("raise SystemExit('nothing of it is run')\n")
    for repairer in ("mender:mend", "mender.py:mend", "json:loads"):
        assert main([*RUN, "-q", "--repairer", repairer]) == 0


def test_no_candidates_named(capsys) -> None:
    assert main(["run"]) == 2
    assert "--candidates" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
def test_a_reader_that_goes_away_changes_nothing(form: str, monkeypatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert main([*RUN, "-q", "--output-format", form]) == 0
        monkeypatch.undo()
