from __future__ import annotations

from dataclasses import fields

import pytest
from contract import shipped_schema
from jsonschema import Draft202012Validator

from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, FlagKind, Level, Verdict
from codeflash_parallel.result.result_document import document
from codeflash_parallel.result.result_model import CandidateResult, RunResult

SCHEMA = shipped_schema("schema.json")
DEFINITIONS = SCHEMA["$defs"]
CANDIDATE = CandidateResult(
    id=CandidateId("a"), origin=CandidateOrigin.PATCH, status=CandidateStatus.WON, code=Code.OK, reason="So."
)
RESULT = RunResult(
    run_id="r", complete=True, verdict=Verdict.WINNER, winner=CANDIDATE.id, candidates=(CANDIDATE,)
)


def test_the_schema_is_a_schema_without_a_host() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"].startswith("urn:")


def test_everything_a_result_holds_is_in_the_document_and_in_the_schema() -> None:
    data = document(RESULT)
    assert data.keys() == {f.name for f in fields(RunResult)} | {"schema_version"}
    assert data.keys() == set(SCHEMA["properties"]) == set(SCHEMA["required"])
    one = data["candidates"][0]
    assert one.keys() == {f.name for f in fields(CandidateResult)} - {"diff"}
    assert one.keys() == set(DEFINITIONS["CandidateResult"]["properties"])


@pytest.mark.parametrize("vocabulary", [Verdict, CandidateStatus, Level, FlagKind, CandidateOrigin])
def test_the_schema_names_the_closed_vocabularies(vocabulary) -> None:
    assert DEFINITIONS[vocabulary.__name__]["enum"] == [member.value for member in vocabulary]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("schema_version", "3.0"),
        ("verdict", "best"),
        ("isolation", "auto"),
        ("snapshot", "HEAD"),
        ("tests_selected", -1),
        ("winner", 3),
        ("candidates", [{}]),
        ("slots", {"kind": "copy"}),
        ("error", {"family": "ours", "code": "X", "message": "", "hint": ""}),
    ],
)
def test_the_schema_refuses(field: str, wrong: object) -> None:
    validator = Draft202012Validator(SCHEMA)
    assert validator.is_valid(document(RESULT))
    assert not validator.is_valid({**document(RESULT), field: wrong})


def test_fields_are_described_by_the_docstrings_also_of_a_base_class() -> None:
    group = DEFINITIONS["GroupSpeedup"]["properties"]
    assert group["low"]["description"].startswith("Bounds at the run's confidence")
    assert group["group"]["description"] == "Its name; `groups` of the race has its tests."
