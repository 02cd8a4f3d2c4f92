"""Runs on hosts of an engine, as the page `many_machines.md` has them.

What the page says of Slurm is executed with the other pages (`test_documented_commands.py`). Ray's own commands
start and stop every Ray of this machine: `nox -s cluster` asks for them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from aftermath import processes_of
from documentation import ROOT, blocks
from harness import (
    FIXTURES,
    LONGEST_S,
    Place,
    assert_nothing_left,
    commit_all,
    copy_tree,
    load_fixture,
    make_place,
)
from test_fixtures import arguments

from codeflash_parallel import (
    Answer,
    RefinementRequest,
    RepairRequest,
    Replacement,
    Settings,
    Submission,
    evaluate,
)
from codeflash_parallel.config.settings import Executor
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import Code

pytestmark = pytest.mark.slow

HERE = ("--executor", "slurm", "--cluster", "local", "--cluster-jobs", "2")
PAGE = ROOT / "docs" / "how-to" / "many_machines.md"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    fixture = load_fixture("wrong_but_fast")
    made = make_place(tmp_path / "user")
    copy_tree(fixture.folder / "project", made.repository)
    commit_all(made.repository)
    return made


def test_jobs_of_slurm_give_the_verdicts_of_this_process(place: Place) -> None:
    fixture = load_fixture("wrong_but_fast")
    options = ["check", *arguments(fixture, place)[1:]]

    here, there = place.run(*options), place.run(*options, *HERE)

    assert there.status == here.status, there.errors
    verdicts = [
        {c["id"]: (c["status"], c["code"], c["reason"]) for c in done.document["candidates"]}
        for done in (here, there)
    ]
    assert verdicts[0] == verdicts[1]
    (host,) = there.document["hosts"]
    assert sorted(host["checked"]) == sorted(
        name for name, verdict in verdicts[0].items() if verdict[0] != "duplicate"
    )
    assert_nothing_left(place)


@pytest.mark.parametrize("executor", [one for one in Executor if one.is_cluster])
def test_an_engine_that_is_not_there_is_named_in_one_line(place: Place, executor: Executor) -> None:
    fixture = load_fixture("wrong_but_fast")
    address = ("--cluster", "127.0.0.1:1") if executor is Executor.RAY else ()

    done = place.run(*arguments(fixture, place), "--executor", executor, *address)

    assert done.status in {2, 4}
    assert done.document["error"]["code"] in {"NO_ENGINE", "NO_CLUSTER"}
    assert "Traceback" not in done.errors


def test_a_host_with_another_python_is_left_out_and_the_run_says_why(place: Place) -> None:
    fixture = load_fixture("wrong_but_fast")
    prepare = ("--prepare", "echo no network here; exit 3")

    done = place.run(*arguments(fixture, place), *HERE, *prepare)

    assert done.status == 4
    assert done.document["error"]["code"] == "PREPARE_FAILED"
    assert "no network here" in done.document["error"]["message"]
    assert_nothing_left(place)


def test_repairs_and_refinements_are_checked_and_raced_there_too(tmp_path: Path) -> None:
    place = make_place(tmp_path / "user")
    copy_tree(FIXTURES / "demonstration" / "project", place.repository)
    commit_all(place.repository)
    given = FIXTURES / "demonstration" / "candidates"
    asked: list[str] = []

    def version(name: str) -> Replacement:
        return Replacement(code=(given / f"{name}.py").read_text(encoding="utf-8"))

    def repair(request: RepairRequest) -> list[Answer]:
        asked.append(f"{request.candidate} {request.code}")
        return [Answer(parent=request.candidate, content=version("remember_what_is_needed"))]

    def refine(requests: Sequence[RefinementRequest]) -> list[Answer]:
        asked.append(" ".join(request.candidate for request in requests))
        return [Answer(parent=requests[0].candidate, content=version("count_what_is_missing"))]

    result = evaluate(
        [Submission(id=CandidateId("wrong"), content=version("depth_first"))],
        place.repository,
        Settings(
            functions=("taskgraph/ordering.py::topological_sort",),
            cache_dir=str(place.cache),
            executor="slurm",
            cluster="local",
            cluster_jobs=2,
            time_budget=150,
        ),
        repairer=repair,
        refiner=refine,
    )

    # The second race goes on with the measurements of the first one, on the same host.
    assert asked[:2] == ["wrong VALUE_DIFFERS", "wrong-repaired"]
    assert result.winner == "wrong-repaired-refined", result.summary
    codes = {one.id: one.code for one in result.candidates}
    assert codes["wrong"] is Code.VALUE_DIFFERS
    assert codes["wrong-repaired"] is Code.BEATEN
    (host,) = result.hosts
    assert (host.raced, host.checked) == (True, ("wrong", "wrong-repaired", "wrong-repaired-refined"))


@pytest.mark.witness
@pytest.mark.skipif("CODEFLASH_TEST_RAY" not in os.environ, reason="nox -s cluster starts and stops Ray")
def test_the_commands_of_ray_work(tmp_path: Path) -> None:
    place = make_place(tmp_path / "user")
    copy_tree(FIXTURES / "demonstration" / "project", place.repository)
    commit_all(place.repository)
    copy_tree(FIXTURES / "demonstration" / "candidates", place.repository / "candidates")
    script = next(block.text for block in blocks(PAGE) if block.text.startswith("ray start --head"))
    program = f"{shlex.quote(sys.executable)} -m codeflash_parallel "
    path = os.pathsep.join([str(Path(sys.executable).parent), place.environment["PATH"]])

    done = subprocess.run(
        ["bash", "-e", "-c", script.replace("codeflash-parallel ", program)],
        cwd=place.repository,
        env={**place.environment, "PATH": path, "CODEFLASH_PARALLEL_CACHE_DIR": str(place.cache)},
        capture_output=True,
        text=True,
        timeout=2 * LONGEST_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert "count_what_is_missing" in done.stdout
    assert processes_of(place.cache) == []
