"""What code says of its parameters itself, and what inputs that gives."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

from codeflash_parallel._runner.inputs import call_relations, parameter_expectations
from codeflash_parallel._runner.inputs.mutation import Mutator
from codeflash_parallel._runner.inputs.object_constructors import empty_attributes


class View:
    def __init__(self, table: dict[str, int], uri: str, limit: int = 3) -> None:
        self.table = table
        self.namespace = uri
        self.prefix = f"{{{uri}}}" if uri else ""
        self.limit = limit

    def find(self, name: str, default: Any = None, key: Callable[[str], Any] | None = None) -> Any:
        if not self.limit or (name and self.table):
            return default
        return key(name) if key is not None else str(name)


class Bare:
    pass


def test_what_a_function_asks_for_is_read_from_its_source() -> None:
    assert parameter_expectations.empties(View.find) == {".limit", "name", ".table"}
    assert parameter_expectations.callees(View.find) == {"key", "str"}
    assert empty_attributes(View) == {".namespace"}


def test_nothing_is_read_where_there_is_no_source() -> None:
    made: dict[str, Any] = {}
    exec("def hidden(x):\n    return x() if x else 0", made)
    for function in (made["hidden"], len, [], None):
        assert parameter_expectations.empties(function) == parameter_expectations.callees(function) == set()
    assert empty_attributes(Bare) == empty_attributes(int) == set()


def made_of(args: tuple[Any, ...], known: call_relations.CallRelations) -> list[tuple[Any, ...]]:
    """Return many inputs that keep all relations."""
    mutator = Mutator(known, random.Random(3))
    made = [mutator.mutate(*copy.deepcopy((args, {})), (args, {})) for _ in range(600)]
    return [one[0] for one in made if one is not None and not known.broken(*one)]


def test_only_what_code_tests_for_being_empty_is_ever_empty() -> None:
    observed = [(("abc", "de"), {}), (("fg", "hij"), {})]
    made = made_of(observed[0][0], call_relations.infer(observed, optional=frozenset({1})))
    assert any(second == "" for _, second in made)
    assert all(first for first, _ in made)


def test_what_tests_leave_none_and_code_calls_is_a_callable_in_some_inputs() -> None:
    observed = [(("abc", None, None), {}), (("de", None, None), {})]
    made = made_of(observed[0][0], call_relations.infer(observed, called=frozenset({(1,)})))
    assert {one[1] for one in made} == {None, *parameter_expectations.ANSWERS}
    assert {one[2] for one in made} == {None}


def test_what_tests_give_itself_is_not_replaced_by_a_callable_of_ours() -> None:
    observed = [(("abc", len), {}), (("de", str.upper), {})]
    made = made_of(observed[0][0], call_relations.infer(observed, called=frozenset({(1,)})))
    assert not {one[1] for one in made} & {*parameter_expectations.ANSWERS}


def test_answers_keep_containers_and_stand_for_all_else() -> None:
    answer, false = parameter_expectations.ANSWERS
    assert answer(1, "a", [2]) == [2]
    assert answer(1, "a", 2) == answer() == "x"
    assert false(1, key=2) == ""
