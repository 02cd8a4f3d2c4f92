"""Functions beside the targets: who changes them is compared by their calls, whoever leaves them alone is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Settings, Submission
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level
from codeflash_parallel.result.result_model import CandidateResult

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SUMS = '''
import time

STEP = 1


def spread(values):
    """Return squares; `total` is the only one that calls it."""
    return [value * value for value in values]


def total(values):
    result = 0
    for value in spread(values):
        result += value
    return result


def spare(number):
    return number + STEP


def opened(stream):
    return stream.read()


def noted(seen, word):
    seen.append(word)
    return len(word)


def refused(word):
    raise ValueError(word)


def stamped(text):
    return f"{text} at {int(time.time())}"
'''
# No assertion looks at what `spare` and `opened` give: values alone can tell.
TESTS = """
import sys

import pytest
from shop.sums import noted, opened, refused, spare, stamped, total

@pytest.mark.parametrize("values", [[], [1], [1, 2, 3], [4, 2]])
def test_total(values):
    assert total(values) == sum(value * value for value in values)

def test_spare():
    spare(3)

def test_noted():
    noted([], "one")

def test_refused():
    with pytest.raises(Exception):
        refused("one")

def test_stamped():
    stamped("here")

def test_opened(tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    with path.open() as stream:
        opened(stream)
"""


def changed(name: str, *replacements: tuple[str, str], end: str = "") -> Submission:
    text = SUMS
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return Submission(
        id=CandidateId(name), content=FileTexts(files=(FileText(path="shop/sums.py", text=text + end),))
    )


FAST = ("    result = 0\n    for value in spread(values):\n        result += value\n    return result\n",)
SUBMISSIONS = [
    changed("body of the target", (FAST[0], "    return sum(value * value for value in values)\n")),
    changed("another spare", ("return number + STEP", "return number")),
    changed("spare assigned", end="\n\nspare = abs\n"),
    changed("another constant", ("STEP = 1", "STEP = 2")),
    changed("other arguments of noted", ("    seen.append(word)\n", "")),
    changed("another result of noted", ("    seen.append(word)\n    return len(word)", "    return word")),
    changed("another exception of refused", ("raise ValueError(word)", "raise KeyError(word)")),
    changed("a constant more", ("STEP = 1", "STEP = 1\nMORE = 1")),
    changed(
        "a helper of the target with another contract",
        ("return [value * value for value in values]", "return sum(value * value for value in values)"),
        (FAST[0], "    return spread(values)\n"),
    ),
    changed(
        "a function that cannot be captured", ("return stream.read()", "return ''.join([stream.read()])")
    ),
]


async def test_calls_of_what_is_changed_beside_the_targets_are_compared(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", shop__sums_py=SUMS, tests__test_sums_py=TESTS)
    settings = Settings(
        functions=("shop/sums.py::total",), cache_dir=str(tmp_path / "cache"), parallel_candidates=2
    )
    async with Evaluator(project, settings) as evaluator:
        result = await evaluator.evaluate(SUBMISSIONS, race=RaceMode.CHECK)
        again = await evaluator.evaluate([SUBMISSIONS[3], SUBMISSIONS[7]], race=RaceMode.CHECK)
    strict = replace(settings, strict=True)
    async with Evaluator(project, strict) as evaluator:
        refused = await evaluator.evaluate(SUBMISSIONS[4:5], race=RaceMode.CHECK)
    assert [one.code for one in refused.candidates] == [Code.INPUT_MUTATED]
    found = {candidate.id: candidate for candidate in result.candidates}
    verdicts = {name: (one.status, one.code) for name, one in found.items()}
    fine, other = (CandidateStatus.UNDECIDED, Code.NOT_RACED), (CandidateStatus.REJECTED, Code.VALUE_DIFFERS)
    assert verdicts == {
        "body of the target": fine,
        "another spare": other,
        "spare assigned": other,
        "another constant": other,
        "other arguments of noted": fine,
        "another result of noted": other,
        "another exception of refused": other,
        "a constant more": fine,
        "a helper of the target with another contract": fine,
        "a function that cannot be captured": fine,
    }
    assert "spare" in found["another spare"].reason
    assert all(0 < one.isolation_ms < sum(one.timings_ms.values()) for one in found.values())
    assert _told(found["body of the target"]) == (0, (), Level.DERIVED)
    assert _told(found["a constant more"]) == (3, (), Level.DERIVED)
    hints = {name: one.hints for name, one in found.items() if one.hints}
    assert list(hints) == ["other arguments of noted"]
    assert hints["other arguments of noted"][0].startswith("noted leaves its arguments ")
    uncaptured = found["a function that cannot be captured"]
    assert _told(uncaptured) == (3, ("shop/sums.py::opened",), Level.TESTS)
    assert [one.code for one in again.candidates] == [Code.VALUE_DIFFERS, Code.NOT_RACED]


def _told(candidate: CandidateResult) -> tuple[int, tuple[str, ...], Level]:
    return candidate.values.beside, candidate.values.uncompared, candidate.values.level
