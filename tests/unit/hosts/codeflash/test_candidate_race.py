"""The optimizer between codeflash's loop and a run; races themselves: `test_codeflash_races.py`."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.hosts.codeflash.candidate_race import _generated_tests, racing_class
from codeflash_parallel.hosts.codeflash.race_log import RaceLog

ORIGINAL = "def f():\n    return 1\n"


class OneByOne:
    """Evaluates in its own way: notes which candidate it was given."""

    def __init__(self, folder: Path) -> None:
        self.project_root = folder
        self.function_to_optimize = SimpleNamespace(file_path=folder / "a.py", qualified_name="f")
        self.function_to_optimize_source_code = ORIGINAL
        self.test_files: list[Any] = []
        self.evaluated: list[str] = []
        (folder / "a.py").write_text(ORIGINAL)

    def determine_best_candidate(self, *, candidates: list[str]) -> Any:
        for number, text in enumerate(candidates, start=1):
            node = SimpleNamespace(
                candidate=SimpleNamespace(source_code=text, explanation="", optimization_id=text)
            )
            self.process_single_candidate(
                candidate_node=node,
                candidate_index=number,
                code_context=None,
                original_helper_code={},
                original_code_baseline=SimpleNamespace(behavior_test_results=[]),
            )
            (self.project_root / "a.py").write_text(ORIGINAL)
        return self.select_best_optimization(eval_ctx=None)

    def process_single_candidate(self, **given: Any) -> None:
        self.evaluated.append(given["candidate_node"].candidate.source_code)

    def select_best_optimization(self, **_: Any) -> str:
        return "its own choice"

    def replace_function_and_helpers_with_optimized_code(self, *, optimized_code: str, **_: Any) -> bool:
        ast.parse(optimized_code)
        (self.project_root / "a.py").write_text(optimized_code)
        return True


def test_without_a_run_it_evaluates_in_its_own_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = RaceLog(path=tmp_path / "log")
    optimizer = racing_class(OneByOne, {}, log)(tmp_path)
    texts = ["def f():\n    return 2\n", "def f(:\n"]
    assert optimizer.determine_best_candidate(candidates=texts) == "its own choice"
    assert optimizer.evaluated == texts
    (race,) = log.document()["functions"]
    assert (race["function"], race["run_id"], race["winner"]) == ("a.py::f", "", "")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "codeflash-parallel: Candidate 2 is left out: invalid syntax (<unknown>, line 1)"
    assert said[1] == "codeflash-parallel: a.py::f: one run with 1 of its candidates…"
    assert "not in a git repository" in said[2]
    assert said[2].endswith("codeflash evaluates the candidates itself.")


def test_without_candidates_that_change_anything_there_is_no_run(tmp_path: Path) -> None:
    log = RaceLog(path=tmp_path / "log")
    optimizer = racing_class(OneByOne, {}, log)(tmp_path)
    assert optimizer.determine_best_candidate(candidates=[ORIGINAL]) is None
    assert optimizer.evaluated == []
    assert log.document()["functions"] == []


def test_generated_tests_that_the_original_fails_are_left_out() -> None:
    def result(name: str, test: str, group: str | None, *, did_pass: bool) -> SimpleNamespace:
        which = SimpleNamespace(test_function_name=test, test_class_name=group)
        return SimpleNamespace(file_name=Path("tests", name), id=which, did_pass=did_pass)

    def file(name: str, source: str | None, original: Path | None = None) -> SimpleNamespace:
        place = Path("tests", name)
        return SimpleNamespace(
            instrumented_behavior_file_path=place, original_source=source, original_file_path=original
        )

    source = "def test_a(): ...\ndef test_b(): ...\nclass TestC:\n    def test_d(self): ...\n"
    optimizer = SimpleNamespace(
        test_files=[file("test_new_0.py", source), file("test_old.py", None, Path("tests/test_o.py"))]
    )
    results = [
        result("test_new_0.py", "test_a", None, did_pass=True),
        result("test_new_0.py", "test_b[1]", None, did_pass=False),
        result("test_new_0.py", "test_b[2]", None, did_pass=False),
        result("test_new_0.py", "test_d", "TestC", did_pass=False),
        result("test_old.py", "test_e", None, did_pass=False),
    ]
    with _generated_tests(optimizer, SimpleNamespace(behavior_test_results=results)) as folder:
        (made,) = Path(folder).iterdir()
        left: dict[str, Any] = {}
        exec(made.read_text(), left)
    assert made.name == "test_new_0.py"
    assert {"test_a", "TestC"} <= left.keys()
    assert "test_b" not in left
    assert not hasattr(left["TestC"], "test_d")
    assert not Path(folder).exists()
