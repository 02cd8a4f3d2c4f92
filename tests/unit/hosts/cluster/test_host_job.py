"""Jobs travel as one line of JSON, and come as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from host_jobs import host_job, text_of_job
from ranking_cases import held

from codeflash_parallel.config.settings import Settings, settings_of
from codeflash_parallel.hosts.cluster.environment_stamp import EnvironmentStamp
from codeflash_parallel.hosts.cluster.host_job import HostJob, SentStep
from codeflash_parallel.result.candidate_model import (
    CandidateId,
    CandidateOrigin,
    FileText,
    FileTexts,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    Submission,
)
from codeflash_parallel.result.codec import from_plain
from codeflash_parallel.run.ledger import RaceFinding
from codeflash_parallel.run.remote_hosts import RunPart
from codeflash_parallel.run.run_state import RaceMode, StepKind
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

CONTENTS = (
    PatchText(patch="--- a\n+++ b\n"),
    Replacement(code="def f():\r\n    return '\u2028'\n", function="a.py::f"),
    GitRef(ref="origin/fast"),
    FileTexts(files=(FileText(path="a.py", text=None), FileText(path="b.py", text="\udcff"))),
    ModelAnswer(answer="```python\n```"),
)
SUBMISSIONS = tuple(
    Submission(
        id=CandidateId(f"c{number}"),
        content=content,
        origin=CandidateOrigin.REPAIR,
        parent=CandidateId("p"),
        explanation="why",
    )
    for number, content in enumerate(CONTENTS)
)
STEP = SentStep(kind=StepKind.SCREEN, key='["k", null]', text='{"digest":"0","value":{"a":"\\n"}}')
FULL = replace(
    host_job(
        Snapshot(commit="1" * 40, tree="2" * 40, base="", ignored_left_out=("a/",), protected=("t/",)),
        prepare="make env",
        project="sub",
        stamp=EnvironmentStamp(python="CPython", platform="Linux", packages={"a": "1"}),
        settings=Settings(pass_env=("T",), timeout=7.5),
        submissions=SUBMISSIONS,
        steps=(STEP,),
        variables={"T": "a\n\udcff"},
    ),
    part=RunPart.RACE,
    mode=RaceMode.TIME,
    root="/place/repository",
    cache_dir="/place/cache",
    wants_evidence=True,
    constants=(1, 2.5, "text\u2028", -(1 << 70)),
    before=RaceFinding(races=(held({"a": 1.5}),)),
)


@pytest.mark.parametrize("job", [host_job(), FULL], ids=["least", "full"])
def test_a_job_is_the_same_after_its_journey(job: HostJob) -> None:
    text = text_of_job(job)
    assert "\n" not in text
    assert text.encode().decode() == text
    assert from_plain(HostJob, json.loads(text)) == job


def test_a_host_reads_the_settings_of_a_run() -> None:
    read: HostJob = from_plain(HostJob, json.loads(text_of_job(FULL)))
    settings = settings_of(read.settings)
    assert (settings.pass_env, settings.timeout) == (("T",), 7.5)


def test_a_job_with_an_unknown_field_is_none() -> None:
    plain = json.loads(text_of_job(host_job()))
    with pytest.raises(ValueError, match="colour"):
        from_plain(HostJob, {**plain, "colour": "red"})
