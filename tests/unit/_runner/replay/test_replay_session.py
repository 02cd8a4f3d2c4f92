"""Calls that are made again begin with the same random state."""

from __future__ import annotations

import random

from codeflash_parallel._runner.replay.replay_session import seed_everything


def test_random_numbers_come_again_with_the_seed() -> None:
    state = random.getstate()
    try:
        seed_everything(5)
        first = random.random()
        seed_everything(5)
        assert random.random() == first
        seed_everything(6)
        assert random.random() != first
    finally:
        random.setstate(state)
