"""What is told of lists that a function may leave in whatever state it is done with."""

from __future__ import annotations

from codeflash_parallel._runner.replay.scratch_arguments import ScratchArguments


class Held:
    def __init__(self, parts: int) -> None:
        self.parts = [[part] for part in range(parts)]


def told(values: list[tuple[Held, int]]) -> dict[str, str]:
    return ScratchArguments((values,), {}).told(0, (values,), {})


def test_objects_in_a_list_are_told_by_what_they_hold() -> None:
    told_of = told([(Held(3), 1), (Held(5), 2)])
    assert told_of["0"].startswith("=")
    assert told_of[""] != told([(Held(4), 1), (Held(5), 2)])[""]


def test_nothing_is_told_where_all_items_hold_one_large_object() -> None:
    """It would be walked once for each of them: minutes for a tree of token types in every token."""
    shared = Held(500)
    assert told([(shared, number) for number in range(200)]) == {}
    assert told([(Held(500), 1), (shared, 2)])
