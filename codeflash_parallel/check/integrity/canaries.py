"""Canaries: made-up tests that must fail, which show that the runner still tells a failure; and the seal.

They are drawn for one run: one for each assertion helper that its tests use, in a module or class where a
canary of that helper was seen to fail on the baseline, after a random one of its tests; and one after the
last of them all. They are part of no count. One that does not fail as it must means that nothing which that
runner says can be believed.

A form is the body of such a test: it computes a value (`{a} * {b}`), holds it against a wrong one through the
helper as that module calls it (`{call}`), and its failure must name what `tells` says: a text that is known
only to what has computed the value, or the words of the helper itself. Helpers of `unittest` and pytest that
are not listed are guarded by the comparison of the runner's own functions alone.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

from codeflash_parallel.candidates.functions import parse_or_none
from codeflash_parallel.candidates.python_source import dotted
from codeflash_parallel.check.session.runner_report import RunnerReport, TestOutcome
from codeflash_parallel.result.runtime_protocols import Workspace

#: Canaries of one run at most, besides the last: a failing test takes about a millisecond.
MOST = 12
#: Places that the baseline tries at most; each helper in at most so many of them.
MOST_TRIED, MOST_OF_A_HELPER = 32, 3
#: Values are products of two such numbers.
_FACTORS = (101, 997)
_WORD = re.compile(r"[a-z]{2,}", re.IGNORECASE)
#: Bytes of the key of a seal, and of the seal itself.
_KEY_BYTES, _SEAL_BYTES = 32, 16
#: The assert statement, which every test module has.
STATEMENT = "assert"


class AssertionForm(NamedTuple):
    """A way in which one helper is made to fail.

    Attributes:
        lines: of the body; `{v}` is a variable's name, `{wrong}` a number that is greater than the value.
        tells: what the failure's message must hold.
    """

    lines: tuple[str, ...]
    tells: str = "{value}"


def _of(*lines: str, tells: str = "{value}") -> tuple[AssertionForm, ...]:
    return (AssertionForm(("{v} = {a} * {b}", *lines), tells),)


_PREDICATE = _of("assert {call}({v}, {wrong}), {v}")
_PROCEDURE = _of("{call}({v}, {wrong})")
_MOCK = _of("mock = __import__('unittest.mock').mock.Mock()", "mock({v})", "mock.{name}({wrong})")

#: Forms by the last part of a helper's name.
FORMS: Mapping[str, tuple[AssertionForm, ...]] = {
    STATEMENT: _of("assert {v} == {wrong}, {v}"),
    "approx": _of("assert {v} == {call}({wrong}), {v}"),
    **dict.fromkeys(("isclose", "allclose", "array_equal", "array_equiv"), _PREDICATE),
    **dict.fromkeys(("assert_allclose", "assert_array_equal", "assert_equal"), _PROCEDURE),
    **dict.fromkeys(("assert_almost_equal", "assert_array_almost_equal"), _PROCEDURE),
    "assert_series_equal": _of("make = __import__('pandas').Series", "{call}(make([{v}]), make([{wrong}]))"),
    "assert_frame_equal": _of(
        "make = __import__('pandas').DataFrame", "{call}(make([{v}]), make([{wrong}]))"
    ),
    "raises": (
        *_of("with {call}(ValueError, match='{wrong}'):", "    raise ValueError({v})", tells="{wrong}"),
        *_of("with {call}(ValueError):", "    str({v})", tells="DID NOT RAISE"),
    ),
    **dict.fromkeys(("assert_called_with", "assert_called_once_with", "assert_any_call"), _MOCK),
}
#: The same of methods of `unittest.TestCase`.
METHODS: Mapping[str, tuple[AssertionForm, ...]] = {
    **dict.fromkeys(("assertEqual", "assertAlmostEqual", "assertGreater", "assertGreaterEqual"), _PROCEDURE),
    "assertTrue": _of("{call}({v} == {wrong}, {v})"),
    "assertFalse": _of("{call}({v} != {wrong}, {v})"),
    "assertRaises": _of("with {call}(ValueError):", "    str({v})", tells="ValueError not raised"),
}

#: Helper by the dotted name that it is called by, for each class that calls methods of `TestCase`
#: (``"Outer.Inner"``); those of the class ``""`` are good in the whole module.
HelperCalls = Mapping[str, Mapping[str, str]]


def uses(text: bytes) -> HelperCalls:
    """Return the helpers that a module's text calls; none where it does not parse."""
    tree = parse_or_none(text.decode("utf-8", "replace"))
    found: dict[str, dict[str, str]] = {"": {}}
    for cls, call in _calls(tree.body, "") if tree else ():
        name = call.rpartition(".")[2]
        if call == f"self.{name}" and name in METHODS:
            if cls:
                found.setdefault(cls, {})[call] = name
        elif name in FORMS and FORMS[name] is _MOCK:
            found[""][name] = name
        elif name in FORMS and not call.startswith("self."):
            found[""][call] = name
    return found


def _calls(body: Iterable[ast.stmt], cls: str) -> Iterator[tuple[str, str]]:
    """Yield class and dotted name of every call."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _calls(statement.body, f"{cls}.{statement.name}".lstrip("."))
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                yield cls, dotted(node.func)


class CanaryPlace(NamedTuple):
    """A place for canaries: a module or class of tests, and a helper as it is called there.

    Attributes:
        parent: the id of its tests without their own names.
    """

    parent: str
    helper: str
    call: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Canary:
    """One canary of one run.

    Attributes:
        after: id of the test that it follows.
        tells: what the message of its failure must hold.
    """

    place: CanaryPlace
    name: str
    after: str
    lines: tuple[str, ...]
    tells: str

    @property
    def id(self) -> str:
        """Return its test id, without the parameters of fixtures that every test there has."""
        return f"{self.place.parent}::{self.name}"


def parent_of(test: str) -> str:
    """Return the id of a test's module or class."""
    return _bare(test).rpartition("::")[0]


def _bare(test: str) -> str:
    file, mark, names = test.partition("::")
    return file + mark + names.partition("[")[0]


def places_of(tests: Iterable[str], used: Mapping[str, HelperCalls]) -> tuple[CanaryPlace, ...]:
    """Return where canaries of some tests could be.

    Args:
        tests: their ids.
        used: what their modules use, by the file's part of the ids.
    """
    places = []
    for parent in dict.fromkeys(map(parent_of, tests)):
        file, _, names = parent.partition("::")
        if file in used:
            calls = {**used[file].get("", {}), **used[file].get(names.replace("::", "."), {})}
            helpers = {STATEMENT: STATEMENT, **calls}
            places += [CanaryPlace(parent, helper, call) for call, helper in helpers.items()]
    return tuple(places)


def to_be_tried(random: Random, places: Sequence[CanaryPlace], last: str) -> tuple[CanaryPlace, ...]:
    """Choose places that the baseline tries: every helper in some, and the last test's parent.

    Args:
        last: id of the last test.
    """
    first = [place for place in places if place.parent == parent_of(last) and place.helper == STATEMENT]
    others = random.sample(list(places), len(places))
    some = [place for found in _by_helper(others).values() for place in found[:MOST_OF_A_HELPER]]
    rest = [place for place in others if place.helper == STATEMENT]
    return tuple(dict.fromkeys((*first, *some, *rest)))[:MOST_TRIED]


def draw(random: Random, tests: Sequence[str], places: Sequence[CanaryPlace]) -> tuple[Canary, ...]:
    """Draw the canaries of one run.

    Args:
        random: its state is known to the evaluator alone.
        tests: ids in the order in which they are run.
        places: where canaries were seen to fail on the baseline.
    """
    number = {parent_of(test): index for index, test in enumerate(tests)}
    usable = [place for place in places if place.parent in number]
    if not usable:
        return ()
    by_helper = _by_helper(usable)
    helpers = random.sample(list(by_helper), min(MOST, len(by_helper)))
    drawn = [random.choice(by_helper[helper]) for helper in helpers]
    end = max(usable, key=lambda place: (number[place.parent], place.helper == STATEMENT))
    return draw_at(random, tests, drawn, (end, tests[number[end.parent]]))


def _by_helper(places: Iterable[CanaryPlace]) -> dict[str, list[CanaryPlace]]:
    found: dict[str, list[CanaryPlace]] = {}
    for place in places:
        found.setdefault(place.helper, []).append(place)
    return found


def draw_at(
    random: Random, tests: Sequence[str], places: Sequence[CanaryPlace], *more: tuple[CanaryPlace, str]
) -> tuple[Canary, ...]:
    """Draw one canary for each place, after a random test there, and more after given tests."""
    inside: dict[str, list[str]] = {}
    for test in tests:
        inside.setdefault(parent_of(test), []).append(test)
    taken = {_bare(test).rpartition("::")[2] for test in tests}
    words = sorted({word for name in taken for word in _WORD.findall(name)} - {"test"}) or ["case"]
    canaries = []
    for place, after in (*((place, random.choice(inside[place.parent])) for place in places), *more):
        name = _new_name(random, _bare(after).rpartition("::")[2], words, taken)
        taken.add(name)
        canaries.append(_canary(random, place, name, after, random.choice(words).lower()))
    return tuple(canaries)


def _new_name(random: Random, beside: str, words: Sequence[str], taken: Iterable[str]) -> str:
    """Return a name that looks like those of the project's tests and is none of them."""
    name = beside.partition("_")[0] if "_" in beside else "test"
    name = "_".join([name, *random.choices(words, k=2)])
    while name in taken:
        name = f"{name}_{random.choice(words)}"
    return name


def _canary(random: Random, place: CanaryPlace, name: str, after: str, word: str) -> Canary:
    forms = METHODS if place.call.startswith("self.") else FORMS
    form = random.choice(forms[place.helper])
    a, b = random.randint(*_FACTORS), random.randint(*_FACTORS)
    wrong = a * b + random.randint(*_FACTORS)
    words = {"a": a, "b": b, "value": a * b, "wrong": wrong, "v": f"{word}_", "name": place.helper}
    told = {**words, "call": place.call}
    lines = tuple(line.format(**told) for line in form.lines)
    return Canary(place=place, name=name, after=after, lines=lines, tells=form.tells.format(**told))


# ---- what became of them


def sift(report: RunnerReport, canaries: Sequence[Canary]) -> tuple[RunnerReport, Mapping[str, TestOutcome]]:
    """Return a report without its canaries, and their outcomes by their ids."""
    if not canaries:
        return report, {}
    ours = {canary.id for canary in canaries}
    outcomes = {_bare(test): found for test, found in report.tests.items() if _bare(test) in ours}
    kept = replace(
        report,
        collected=tuple(test for test in report.collected if _bare(test) not in ours),
        tests={test: found for test, found in report.tests.items() if _bare(test) not in ours},
    )
    return kept, outcomes


def failed_as_it_must(canary: Canary, outcomes: Mapping[str, TestOutcome]) -> bool:
    """Say whether a canary failed, in its call, and said what it had to say."""
    found = outcomes.get(canary.id)
    return found is not None and found.outcome == "failed" and canary.tells in found.message


def disbelief(canaries: Iterable[Canary], outcomes: Mapping[str, TestOutcome]) -> str:
    """Return why a runner cannot be believed, one sentence; empty if all canaries failed as they must."""
    for canary in canaries:
        if not failed_as_it_must(canary, outcomes):
            found = outcomes.get(canary.id)
            how = "was not run" if found is None else f"is {found.outcome}"
            how = "failed in another way" if found is not None and found.outcome == "failed" else how
            what = "an assert" if canary.place.helper == STATEMENT else canary.place.call
            return (
                f"A test that must fail ({what} of a wrong value) {how}: the test runner was tampered with."
            )
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSecrets:
    """The secrets of one run."""

    key: bytes = b""
    canaries: tuple[Canary, ...] = ()


def arm(
    workspace: Workspace, spec: Mapping[str, Any], canaries: Sequence[Canary]
) -> tuple[dict[str, Any], RunSecrets]:
    """Write the secrets of one run where its runner takes them away; return the spec that names them.

    The ids of canaries stand among the others in the spec, as those of any test that is to be run.
    """
    arms = RunSecrets(key=secrets.token_bytes(_KEY_BYTES), canaries=tuple(canaries))
    told = {
        "key": arms.key.hex(),
        "canaries": [{"name": one.name, "after": one.after, "lines": list(one.lines)} for one in canaries],
    }
    path = workspace.private / secrets.token_hex(8)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(json.dumps(told).encode())
    lists = {name: _with(spec[name], canaries) for name in ("select", "order") if spec.get(name)}
    return {**spec, **lists, "secret": str(path)}, arms


def _with(tests: Sequence[str], canaries: Sequence[Canary]) -> list[str]:
    """Put canaries behind the tests that they follow."""
    by_test: dict[str, list[str]] = {}
    for canary in canaries:
        by_test.setdefault(canary.after, []).insert(0, canary.id)
    return [one for test in tests for one in (test, *by_test.get(test, ()))]


def broken_seal(records: bytes, key: bytes) -> bool:
    """Say whether the records of a run that claims to have come to its end are not its runner's alone.

    The end record comes last, and holds a keyed digest of all bytes before it, which the runner's channel
    made as it wrote them.
    """
    start = records.rstrip(b"\n").rfind(b"\n") + 1
    seal = ""
    with suppress(ValueError, AttributeError):
        last = json.loads(records[start:])
        seal = str(last.get("seal", "")) if last.get("t") == "end" else ""
    return seal != hashlib.blake2b(records[:start], key=key, digest_size=_SEAL_BYTES).hexdigest()
