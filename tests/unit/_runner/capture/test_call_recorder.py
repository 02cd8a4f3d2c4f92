"""The sample of calls that is kept of very many."""

from __future__ import annotations

from collections import Counter

from codeflash_parallel._runner.capture.call_recorder import NEVER, Reservoir


def kept_of(count: int, capacity: int, seed: int) -> list[int]:
    reservoir = Reservoir(capacity, seed)
    for number in range(count):
        if number >= reservoir.due[0]:
            reservoir.admit(number, number)
    return reservoir.kept


def test_the_sample_is_full_and_uniform() -> None:
    seen = Counter(number for seed in range(400) for number in kept_of(40, 10, seed))
    assert len(seen) == 40
    assert all(len(kept_of(40, 10, seed)) == 10 for seed in range(5))
    assert 60 < min(seen.values()) <= max(seen.values()) < 150  # 100 of 400 each


def test_fewer_calls_than_there_is_room_for_are_all_kept() -> None:
    assert kept_of(3, 10, 1) == [0, 1, 2]
    assert kept_of(3, 0, 1) == []


def test_nothing_is_admitted_in_a_pause_or_after_the_end() -> None:
    reservoir = Reservoir(2, 1)
    reservoir.pause()
    assert not reservoir.admit(0, "a")
    reservoir.resume()
    assert reservoir.admit(1, "b")
    reservoir.close()
    reservoir.resume()
    assert reservoir.due == [NEVER]
    assert reservoir.kept == ["b"]
