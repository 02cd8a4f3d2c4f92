"""The reference page of the providers shows what the code reads and writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from codeflash_parallel.repair.broker import MAX_ABANDONED
from codeflash_parallel.repair.provider_protocol import (
    MAX_ANSWERS,
    read_answers,
    read_request,
    request_document,
)
from codeflash_parallel.result.candidate_model import FileTexts, PatchText, Replacement

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "providers.md").read_text(encoding="utf-8")
REPAIR, REFINEMENT, ANSWERS = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)


def test_the_requests_are_what_we_send():
    sent = json.dumps(request_document(read_request(json.loads(REPAIR))))
    assert json.loads(sent) == json.loads(REPAIR)
    sent = json.dumps(request_document(read_request(json.loads(REFINEMENT))))
    assert json.loads(sent) == json.loads(REFINEMENT)


def test_the_answers_are_what_we_read():
    kinds = [type(answer.content) for answer in read_answers(ANSWERS)]
    assert kinds == [PatchText, Replacement, FileTexts, FileTexts]


def test_the_numbers_are_ours():
    assert f"At most {MAX_ANSWERS} answers" in PAGE
    assert MAX_ABANDONED == 4
    assert "after four that hang" in PAGE
