"""Inputs made of what candidates say: who treats some sizes and words in a way of its own names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from projects import make_project

from codeflash_parallel import Evaluator, RaceMode, Settings, Submission
from codeflash_parallel.baseline import baseline_replay
from codeflash_parallel.check.comparison.call_comparison import DERIVED_INSIDE
from codeflash_parallel.check.session.runner_session import RunnerSession, run_session
from codeflash_parallel.result.candidate_model import CandidateId, FileText, FileTexts
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Level
from codeflash_parallel.result.result_model import CandidateResult

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SUMS = '''
def words(text):
    """Return how often each word occurs."""
    found = {}
    for word in text.split():
        found[word] = found.get(word, 0) + 1
    return found
'''
TESTS = """
from shop.sums import words

def test_words():
    assert words("a b a") == {"a": 2, "b": 1}
    assert words("to be or not to be") == {"to": 2, "be": 2, "or": 1, "not": 1}
"""
LOOP = "    for word in text.split():\n        found[word] = found.get(word, 0) + 1\n"
COUNTED = "    for word in {text}.split():\n        found[word] = found.get(word, 0) + 1\n"


def changed(name: str, new: str) -> Submission:
    content = FileTexts(files=(FileText(path="shop/sums.py", text=SUMS.replace(LOOP, new)),))
    return Submission(id=CandidateId(name), content=content)


SUBMISSIONS = [
    changed("right", LOOP.replace("found.get(word, 0)", "(found[word] if word in found else 0)")),
    changed("right, with constants", LOOP.replace("+ 1", "+ (len('twelve') - 5)").replace("0)", "7 - 7)")),
    changed("one size", "    if len(text) == 1347:\n        return {}\n" + LOOP),
    changed("one kilobyte", COUNTED.format(text="text[:1024]")),
    changed("one word", "    if 'zebra' in text:\n        return {}\n" + LOOP),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def judged(tmp_path: Path) -> dict[str, CandidateResult]:
    project = make_project(tmp_path / "project", shop__sums_py=SUMS, tests__test_sums_py=TESTS)
    settings = Settings(
        functions=("shop/sums.py::words",), cache_dir=str(tmp_path / "cache"), parallel_candidates=2
    )
    async with Evaluator(project, settings) as evaluator:
        result = await evaluator.evaluate(SUBMISSIONS, race=RaceMode.CHECK)
    return {str(one.id): one for one in result.candidates}


async def test_who_treats_a_size_or_a_word_in_its_own_way_is_found(
    judged: dict[str, CandidateResult],
) -> None:
    for name in ("right", "right, with constants"):
        one = judged.pop(name)
        assert (one.code, one.hints) == (Code.NOT_RACED, ()), one.reason
        assert one.values.level is Level.DERIVED
        assert one.values.derived > 240  # of 480
        assert 0 < one.values.largest_seen < one.values.largest_fresh
    for name, one in judged.items():
        assert (one.status, one.code) == (CandidateStatus.REJECTED, Code.VALUE_DIFFERS), name
        assert one.difference is not None
        assert one.difference.derived


KEYED = """
def key(*values, **options):
    return values + tuple(sorted(options.items()))

def shares(parts):
    assert sum(parts) <= 100
    return [part / 100 for part in parts]

def parts(text):
    return [part for part in text.split(' ') if part]

class Label(str):
    def spaced(self):
        return " ".join(self.split())
"""
KEYED_TESTS = """
from shop.keyed import Label, key, parts, shares

def test_key():
    assert key(1, x=0) == (1, ("x", 0))
    assert key(1, 2) == (1, 2)

def test_shares():
    assert shares([20, 30]) == [0.2, 0.3]
    assert shares([100]) == [1.0]

def test_parts():
    assert parts("a  b") == ["a", "b"]
    assert parts("c") == ["c"]

def test_spaced():
    assert Label(" a  b ").spaced() == "a b"
    assert Label("b c").spaced() == "b c"
"""


@pytest.mark.witness
async def test_keywords_come_in_any_order_texts_of_own_classes_change_and_assertions_are_no_contract(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "project", shop__keyed_py=KEYED, tests__test_keyed_py=KEYED_TESTS)
    settings = Settings(
        functions=tuple(f"shop/keyed.py::{name}" for name in ("key", "shares", "parts", "Label.spaced")),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=2,
    )
    texts = {
        "unsorted": KEYED.replace("sorted(options.items())", "options.items()"),
        "raises otherwise": KEYED.replace(
            "assert sum(parts) <= 100", "if sum(parts) > 100:\n        raise ValueError(parts)"
        ),
        "spaces of any kind": KEYED.replace("text.split(' ')", "text.split()"),
        "two spaces": KEYED.replace('" ".join(self.split())', "self.strip().replace('  ', ' ')"),
        "sorted by a key": KEYED.replace("sorted(options.items())", "sorted(options.items(), key=list)"),
    }
    submissions = [
        Submission(
            id=CandidateId(name), content=FileTexts(files=(FileText(path="shop/keyed.py", text=text),))
        )
        for name, text in texts.items()
    ]
    async with Evaluator(project, settings) as evaluator:
        result = await evaluator.evaluate(submissions, race=RaceMode.CHECK)
    codes = {str(one.id): one.code for one in result.candidates}
    assert codes == {
        "unsorted": Code.VALUE_DIFFERS,
        "raises otherwise": Code.NOT_RACED,
        "spaces of any kind": Code.VALUE_DIFFERS,
        "two spaces": Code.VALUE_DIFFERS,
        "sorted by a key": Code.NOT_RACED,
    }


DEEP = "def kept(numbers):\n    return list(numbers)\n"
DEEP_TESTS = "from shop.deep import kept\n\ndef test_kept():\n    assert kept([1, 2, 3]) == [1, 2, 3]\n"


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return of how many inputs processes have been asked, in the order in which they were."""
    seen: list[int] = []

    async def run(runner: Any, workspace: Any, spec: Any, *more: Any, **named: Any) -> RunnerSession:
        if spec["mode"] == "derive":
            seen.append(spec["inside"])
        return await run_session(runner, workspace, spec, *more, **named)

    monkeypatch.setattr(baseline_replay, "run_session", run)
    return seen


def unlike(name: str, new: str) -> Submission:
    text = DEEP.replace("list(numbers)", new)
    return Submission(
        id=CandidateId(name), content=FileTexts(files=(FileText(path="shop/deep.py", text=text),))
    )


@pytest.mark.parametrize(
    ("depth", "inside"), [("quick", DERIVED_INSIDE), pytest.param("full", 4_000, marks=pytest.mark.witness)]
)
async def test_inputs_are_made_once_for_the_same_constants_as_many_as_the_depth_says(
    depth: str, inside: int, tmp_path: Path, wanted: list[int]
) -> None:
    project = make_project(tmp_path / "project", shop__deep_py=DEEP, tests__test_deep_py=DEEP_TESTS)
    settings = Settings(
        functions=("shop/deep.py::kept",),
        depth=depth,
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=1,
    )
    asked = []
    async with Evaluator(project, settings) as evaluator:
        for new in ("[*numbers]", "[number for number in numbers]", "[*numbers][:1234]"):
            result = await evaluator.evaluate([unlike("other", new)], race=RaceMode.CHECK)
            assert result.candidates[0].values.derived > 0
            asked.append(len(wanted))
    assert asked == [1, 1, 2]
    assert wanted == [inside, inside]


STAMPED = "def kept(numbers):\n    return list(numbers)\n"
STAMPED_TESTS = """
import time
from shop.stamped import kept

def test_kept():
    assert kept([1, 2]) == [1, 2]
    with open({path!r}, "a") as file:  # not where the target was made to raise, which is a run of its own
        file.write("%d " % time.time())
"""


@pytest.mark.witness
async def test_the_baselines_two_runs_are_in_other_seconds_of_the_day(tmp_path: Path) -> None:
    log = tmp_path / "shared" / "log"
    log.parent.mkdir()
    tests = STAMPED_TESTS.format(path=str(log))
    project = make_project(tmp_path / "project", shop__stamped_py=STAMPED, tests__test_stamped_py=tests)
    settings = Settings(
        functions=("shop/stamped.py::kept",),
        cache_dir=str(tmp_path / "cache"),
        parallel_candidates=1,
        allow_write=(str(log.parent),),
    )
    text = STAMPED.replace("list(numbers)", "[*numbers]")
    same = Submission(
        id=CandidateId("same"), content=FileTexts(files=(FileText(path="shop/stamped.py", text=text),))
    )
    async with Evaluator(project, settings) as evaluator:
        await evaluator.evaluate([same], race=RaceMode.CHECK)
    first, second, *_ = log.read_text().split()
    assert first != second
