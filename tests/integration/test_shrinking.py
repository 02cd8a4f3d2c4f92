"""A long input that shows a difference is made smaller: really, the same each time, and it decides nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, Settings, Submission
from codeflash_parallel._runner.inputs.input_shrinker import simpler
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.run.check_phase import fresh_inputs

TESTS = "from shop.sums import total\n\ndef test_total():\n    total(list(range(40)))\n    total([3])\n"
WRONG = """
def total(values):
    if 17 in values:
        return 0
    result = 0
    for value in values:
        result += value * value
    return result
"""


@pytest.mark.witness
@pytest.mark.anyio
@pytest.mark.engine
async def test_a_long_example_is_made_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine calls take too long for a search, and none is made, or it ends after fewer rounds.
    monkeypatch.setattr(fresh_inputs, "TRYING_NS", 10**12)
    monkeypatch.setattr(fresh_inputs, "_LAST_S", 10**6)
    project = make_project(tmp_path / "project", tests__test_sums_py=TESTS)
    settings = Settings(functions=("shop/sums.py::total",), cache_dir=str(tmp_path / "cache"))
    wrong = Submission(id=CandidateId("wrong"), content=Replacement(code=WRONG))
    async with Evaluator(project, settings) as evaluator:
        results = [await evaluator.evaluate([wrong], race=RaceMode.CHECK) for _ in range(2)]
    one, again = (result.candidates[0] for result in results)
    assert (one.status, one.code) == (CandidateStatus.REJECTED, Code.VALUE_DIFFERS)
    assert one.difference is not None
    assert len(one.difference.inputs) > 40
    assert "17" in one.difference.smaller_inputs
    assert len(one.difference.smaller_inputs) < len(one.difference.inputs) // 2
    assert one.difference.smaller_got == "0"
    assert one.difference.smaller_expected not in {"", "0"}
    assert again.difference == one.difference
    assert _left(tmp_path) == []


def _left(folder: Path) -> list[Path]:
    return list(folder.glob("cache/**/shrunk-*"))


def test_simpler_values_are_of_the_same_type_and_come_in_a_fixed_order() -> None:
    for value in (
        [3, 1, 2],
        (4, "ab"),
        "text",
        b"ab",
        12,
        -3,
        2.5,
        {"a": 1, "b": [2]},
        float("nan"),
        True,
        None,
    ):
        found = list(simpler(value, 2))
        assert found == list(simpler(value, 2))
        assert all(type(other) is type(value) and other != value for other in found)
    assert list(simpler(True, 2)) == list(simpler(None, 2)) == list(simpler(float("inf"), 2)) == []
    assert {0, 6, 11} <= set(simpler(12, 2))
    assert {"": None, "te": None, "ext": None}.keys() <= set(simpler("text", 2))


def test_arguments_keep_their_number_and_their_names() -> None:
    for args, kwargs in simpler((([1, 2], 3), {"key": [4]}), 4):
        assert len(args) == 2
        assert kwargs.keys() == {"key"}
