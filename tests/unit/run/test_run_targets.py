"""Target functions: named ones are looked up, others are found by what candidates change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.result.candidate_model import CandidateId, Replacement, Submission
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.run_targets import is_test, named_callable, targets_of

FILES = {
    "shop/sums.py": b"def total(values):\n    return sum(values)\n",
    "shop/other.py": b"def rest():\n    return 1\n",
    "tests/test_sums.py": b"def total():\n    pass\n",
    "broken.py": b"def f(:\n",
}
SNAPSHOT: Any = None
MIRROR: Any = SimpleNamespace(
    read=lambda _snapshot, path: FILES.get(path), paths=lambda _snapshot: list(FILES)
)


def replacement(code: str, function: str = "") -> Submission:
    return Submission(id=CandidateId("c"), content=Replacement(code=code, function=function))


@pytest.mark.anyio
async def test_named_functions_are_looked_up_once_each() -> None:
    found = await targets_of(MIRROR, SNAPSHOT, ["shop/sums.py::total"] * 2, [])
    assert found == (Target(path="shop/sums.py", qualname="total"),)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("named", "code", "said"),
    [
        ("shop/sums.py::totl", "NO_SUCH_FUNCTION", "Did you mean total?"),
        ("shop/sum.py::total", "NO_SUCH_FUNCTION", "Did you mean shop/sums.py?"),
        ("broken.py::f", "NO_SUCH_FUNCTION", "broken.py does not parse"),
        ("shop.sums", "BAD_FUNCTION", "is not of the form"),
    ],
)
async def test_a_function_that_is_not_there_is_refused_with_a_hint(named: str, code: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        await targets_of(MIRROR, SNAPSHOT, [named], [])
    assert (caught.value.code, said in str(caught.value)) == (code, True)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("submission", "expected"),
    [
        (replacement("def total(values):\n    return 0\n"), ("shop/sums.py::total",)),
        (replacement("def total(values):\n    return 0\n", "a.py::f"), ("a.py::f",)),
        (replacement("def unknown():\n    return 0\n"), ()),
        (replacement("def total(:\n"), ()),
    ],
)
async def test_a_replacement_means_the_one_function_of_its_name(
    submission: Submission, expected: tuple[str, ...]
) -> None:
    assert tuple(map(str, await targets_of(MIRROR, SNAPSHOT, [], [submission]))) == expected


def test_a_callable_lies_in_a_file_of_its_own() -> None:
    targets = [Target(path="shop/sums.py", qualname="total")]
    given = named_callable("accept", "judge.py::right", b"def right(): ...", targets)
    assert given == {"path": "judge.py", "name": "right", "source": "def right(): ..."}
    for place, source in (("judge.py::right", None), ("shop/sums.py::right", b"")):
        with pytest.raises(UsageError) as caught:
            named_callable("accept", place, source, targets)
        assert caught.value.code == "BAD_JUDGE"


@pytest.mark.parametrize(
    ("path", "expected"),
    [("tests/data.py", True), ("a/test_b.py", True), ("conftest.py", True), ("attests/b.py", False)],
)
def test_tests_are_known_by_their_paths(path: str, expected: bool) -> None:
    assert is_test(path) is expected
