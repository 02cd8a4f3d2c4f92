"""The plan of a run's checks: the tests that screening leaves out, and when calls inside tests are recorded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.session.runner_session import RunnerConfig, TestRequest
from codeflash_parallel.result.runtime_protocols import ProcessLimits

BASELINE = Baseline(
    targets=("m.py::f",), python="", pytest="", plugins=(), rootdir=".", inifile="", selected=("b",),
    expected={"b": "passed"}, executing=("b",), asked=("a", "b", "c"), observed={("b", 0): Counter({("return", "d", "e"): 1})},
)  # fmt: skip
RUNNER = RunnerConfig(launcher=None, directory=Path(), targets=(), request=TestRequest(), seed=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compare_values", "workers", "watches"), [(True, 0, True), (False, 0, False), (True, 2, False)]
)
def test_calls_inside_tests_are_recorded_in_one_process_where_values_count(
    compare_values: bool, workers: int, watches: bool
) -> None:
    plan = CheckPlan(
        runner=RUNNER,
        baseline=BASELINE,
        limits=ProcessLimits(wall_s=1),
        compare_values=compare_values,
        workers=workers,
    )
    assert plan.watches is watches
    assert plan.rest == ("a", "c")
