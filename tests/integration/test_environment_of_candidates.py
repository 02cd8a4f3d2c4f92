"""What tests and candidates see of the user's environment in real runs, and what is said where it is too little."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from projects import FAST_TOTAL, make_project

from codeflash_parallel import EnvironmentFault, Evaluator, RaceMode, Replacement, Settings, Submission
from codeflash_parallel.cli.main import main
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus, FlagKind

pytestmark = [pytest.mark.engine, pytest.mark.own_baseline]

SECRET = "s3cret-of-the-user"

HIDDEN = """
import os
from shop.sums import total

def test_no_secret_is_there():
    assert total([2]) == 4
    assert "SHOP_TOKEN" not in os.environ
    assert "s3cret" not in repr(os.environ)
    assert "s3cret" not in open("/proc/self/environ").read()
"""
NEEDED = """
import os
from shop.sums import total

def test_the_token():
    assert total([2]) == 4
    assert os.environ["SHOP_TOKEN"].endswith("of-the-user")
"""
#: Right, and it tells what it sees to whoever reads the report.
TELLS = """
def total(values):
    import os
    import sys
    print(sorted(os.environ.items()), file=sys.stderr)
    return sum(value * value for value in values)
"""


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    monkeypatch.setenv("OTHER_TOKEN", SECRET)


def settings(tmp_path: Path, **fields: object) -> Settings:
    plain = {"functions": ("shop/sums.py::total",), "cache_dir": str(tmp_path / "cache")}
    return Settings(**{**plain, "parallel_candidates": 1, **fields})  # type: ignore[arg-type]


def candidate(name: str, code: str = FAST_TOTAL) -> Submission:
    return Submission(id=CandidateId(name), content=Replacement(code=code))


def files_with(words: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]


@pytest.mark.anyio
async def test_secrets_reach_neither_candidates_nor_what_is_kept_of_a_run(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", tests__test_hidden_py=HIDDEN)
    async with Evaluator(project, settings(tmp_path)) as evaluator:
        result = await evaluator.evaluate([candidate("fast"), candidate("tells", TELLS)], race=RaceMode.CHECK)
    assert [c.status for c in result.candidates] == [CandidateStatus.UNDECIDED] * 2
    assert result.pass_env == ()
    fast, tells = result.candidates
    assert fast.flags == ()
    assert [(f.kind, f.what) for f in tells.flags] == [(FlagKind.ENVIRONMENT, "os.environ.items")]
    assert files_with(SECRET, tmp_path / "cache") == []


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_red_baseline_names_the_variable_and_with_it_the_run_goes_on(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", tests__test_needed_py=NEEDED)
    async with Evaluator(project, settings(tmp_path)) as evaluator:
        with pytest.raises(EnvironmentFault) as caught:
            await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
    assert caught.value.code == "RED_BASELINE"
    assert "--pass-env SHOP_TOKEN." in caught.value.hint
    assert "OTHER_TOKEN" not in str(caught.value)
    # The same evaluator's caches serve nobody else: what is passed on is part of their names.
    async with Evaluator(project, settings(tmp_path, pass_env=("SHOP_*",))) as evaluator:
        result = await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
    assert result.candidates[0].status is CandidateStatus.UNDECIDED
    assert result.pass_env == ("SHOP_TOKEN",)
    assert SECRET not in repr(result)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("conftest_py", "RED_BASELINE"),
        ("tests__test_at_import_py", "RED_BASELINE"),
        ("plugin_py", "NO_TESTS"),
    ],
)
async def test_a_variable_that_is_missed_before_any_test_runs_is_named_too(
    tmp_path: Path, name: str, code: str
) -> None:
    more = {name: "import os\nTOKEN = os.environ['SHOP_TOKEN']\n"}
    if name == "plugin_py":
        more["pytest.ini"] = "[pytest]\npythonpath = .\naddopts = -p plugin\n"
    project = make_project(tmp_path / "project", **more)
    async with Evaluator(project, settings(tmp_path)) as evaluator:
        with pytest.raises(EnvironmentFault) as caught:
            await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
    assert caught.value.code == code
    assert "--pass-env SHOP_TOKEN." in caught.value.hint


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_baseline_is_known_again_only_with_the_same_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project")

    async def baselines(**fields: object) -> int:
        # Outcomes only: three new baselines, of which nothing is asked but that there are three.
        own = settings(tmp_path, compare=ComparisonMode.PASS_FAIL, **fields)
        async with Evaluator(project, own) as evaluator:
            await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
        return len(list((tmp_path / "cache").rglob("baseline.json")))

    assert await baselines() == 1
    monkeypatch.setenv("OTHER_TOKEN", "withheld, hence of no account")
    assert await baselines() == 1
    assert await baselines(pass_env=("SHOP_TOKEN",)) == 2
    monkeypatch.setenv("SHOP_TOKEN", "another")
    assert await baselines(pass_env=("SHOP_TOKEN",)) == 3


@pytest.mark.witness
@pytest.mark.anyio
async def test_a_variable_that_changes_between_two_calls_reaches_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "project", tests__test_needed_py=NEEDED)
    async with Evaluator(project, settings(tmp_path, pass_env=("SHOP_TOKEN",))) as evaluator:
        result = await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
        assert result.candidates[0].status is CandidateStatus.UNDECIDED
        monkeypatch.setenv("SHOP_TOKEN", "another")
        with pytest.raises(EnvironmentFault) as caught:
            await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
    assert caught.value.code == "RED_BASELINE"
    assert "SHOP_TOKEN" not in caught.value.hint  # it is there: asking for it would not help


def test_doctor_names_what_is_withheld_and_never_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--output-format", "json", "--pass-env", "OTHER_TOKEN"])
    said = capsys.readouterr().out
    assert SECRET not in said
    data = json.loads(said)
    (row,) = [finding["value"] for finding in data["findings"] if finding["name"] == "environment"]
    asked_for, withheld = row.split("withheld")
    assert "OTHER_TOKEN by --pass-env" in asked_for
    assert "SHOP_TOKEN" in withheld
    assert data["settings"]["pass_env"] == {"value": ["OTHER_TOKEN"], "source": "command line, --pass-env"}


@pytest.mark.anyio
async def test_that_no_tests_are_found_is_said_in_pytests_own_words(tmp_path: Path) -> None:
    warns = {"conftest_py": "import sys\nsys.stderr.write('a warning of a plugin\\n')\n"}
    project = make_project(tmp_path / "project", **warns)
    async with Evaluator(project, settings(tmp_path, tests=("test_none.py",))) as evaluator:
        with pytest.raises(EnvironmentFault, match="file or directory not found") as caught:
            await evaluator.evaluate([candidate("fast")], race=RaceMode.CHECK)
    assert caught.value.code == "NO_TESTS"
