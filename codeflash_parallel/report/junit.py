"""A run as JUnit XML: one suite a candidate, one case for each thing that was found out about it.

junitparser has no types for what changes a suite, hence the `Any`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from codeflash_parallel.report.columns import COLUMNS, NOTHING, race_lines, verdict_cell, verdict_sentence
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.result.safe_text import one_line, printable

#: Statuses that no test runner would call a success.
_FAILED = frozenset({CandidateStatus.REJECTED, CandidateStatus.UNAPPLIABLE})

#: Statuses that say nothing about the candidate's code.
_SKIPPED = frozenset({CandidateStatus.DUPLICATE, CandidateStatus.CANCELLED})

#: Columns that say what the suite's name and the properties `status` and `code` say.
_ELSEWHERE = frozenset({"candidate", "verdict"})


def junit_xml(result: RunResult) -> str:
    """Return the XML text."""
    xml: Any = JUnitXml("codeflash-parallel")
    for candidate in result.candidates:
        xml.add_testsuite(_suite(candidate))
    if result.error is not None:
        xml.add_testsuite(_fault(result))
    xml.update_statistics()
    text = xml.tostring()
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _suite(candidate: CandidateResult) -> Any:
    suite: Any = TestSuite(one_line(candidate.id))
    for name, value in _properties(candidate):
        suite.add_property(name, value)
    for case in _cases(candidate):
        suite.add_testcase(case)
    suite.update_statistics()
    return suite


def _properties(candidate: CandidateResult) -> Iterator[tuple[str, str]]:
    yield "status", candidate.status.value
    yield "code", candidate.code.value
    cells = ((column.name, one_line(column.cell(candidate))) for column in COLUMNS)
    yield from ((name, cell) for name, cell in cells if name not in _ELSEWHERE and cell != NOTHING)
    yield from ((name, one_line(words)) for name, words in race_lines(candidate))
    if candidate.served:
        yield "served", one_line(candidate.served)


def _cases(candidate: CandidateResult) -> Iterator[TestCase]:
    yield _verdict(candidate)
    messages = {failure.id: failure.message for failure in candidate.failures}
    for test in candidate.tests.failed_ids:
        message = printable(messages.get(test, ""))
        yield _case(candidate, test, Failure(message=message.split("\n")[0], type_="TESTS_FAILED"), message)
    for test in candidate.tests.missing_ids:
        yield _case(
            candidate, test, Failure(message="It was not collected or did not run.", type_="TESTS_MISSING")
        )
    if candidate.difference is not None:
        d = candidate.difference
        shown = f"inputs: {d.inputs}\nexpected: {d.expected}\ngot: {d.got}"
        name = f"call {d.call} of {d.target}"
        found = Failure(message="A captured call differs.", type_=candidate.code.value)
        yield _case(candidate, name, found, printable(shown))


def _verdict(candidate: CandidateResult) -> TestCase:
    words = f"{verdict_cell(candidate)}: {one_line(candidate.reason)}"
    if candidate.status in _FAILED:
        return _case(candidate, "verdict", Failure(message=words, type_=candidate.code.value))
    if candidate.status in _SKIPPED:
        return _case(candidate, "verdict", Skipped(message=words))
    if candidate.status == CandidateStatus.INFRA:
        return _case(candidate, "verdict", Error(message=words, type_=candidate.code.value))
    case = _case(candidate, "verdict")
    case.system_out = words
    return case


def _fault(result: RunResult) -> Any:
    assert result.error is not None
    suite: Any = TestSuite("run")
    case = TestCase("verdict", "run")
    case.result = [Error(message=verdict_sentence(result), type_=result.error.code)]
    suite.add_testcase(case)
    suite.update_statistics()
    return suite


def _case(
    candidate: CandidateResult, name: str, found: Failure | Skipped | Error | None = None, text: str = ""
) -> TestCase:
    case = TestCase(one_line(name), one_line(candidate.id))
    if found is not None:
        found.text = text
        case.result = [found]
    return case
