from __future__ import annotations

import re
from pathlib import Path

from codeflash_parallel.race.guards import (
    DOUBTS,
    MISCONDUCT,
    UNSURE,
    disagreeing,
    leaking,
    misconduct,
    starting_longer,
    unstable_groups,
)
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, NULL
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

MS = 1_000_000


def block(arm, *, digest="", start=0, calls=10, children=0, kept=10):
    return Block(
        arm=arm, kind=BlockKind.TIMED, calls=calls, start=start, cpu_ns=MS, wall_ns=MS,
        digest=digest, children=children, kept=kept,
    )  # fmt: skip


def round_of(*blocks, layout=0, start_ns=None):
    return Round(
        number=0, layout=layout, core=0, blocks=blocks, start_ns=start_ns or {}
    )  # fmt: skip


def digests(*pairs, layout=0):
    return round_of(*(block(arm, digest=d) for arm, d in pairs), layout=layout)


def test_outcomes_are_compared_within_a_layout():
    one = digests((BASELINE, "x"), ("a", "x"), ("b", "y"), (BASELINE, "x"))
    other = digests((BASELINE, "z"), ("a", "z"), (BASELINE, "z"), layout=1)

    assert disagreeing([one, other]).keys() == {"b"}
    assert unstable_groups([one, other]) == frozenset()


def test_one_witness_is_not_enough():
    assert disagreeing([digests((BASELINE, "x"), ("a", "y"))]).keys() == frozenset()


def test_a_witness_of_another_layout_counts():
    one, other = digests((BASELINE, "x"), ("a", "y")), digests((BASELINE, "x"), ("a", "x"), layout=1)

    assert disagreeing([one, other]).keys() == {"a"}


def test_a_baseline_that_contradicts_itself_condemns_nobody():
    shaky = digests((BASELINE, "x"), ("a", "y"), (BASELINE, "z"))

    assert disagreeing([shaky]).keys() == frozenset()
    assert unstable_groups([shaky]) == {0}


def test_a_group_that_is_unstable_in_one_layout_is_compared_in_none():
    shaky = digests((BASELINE, "x"), ("a", "x"), (BASELINE, "z"))
    lucky = digests((BASELINE, "x"), ("a", "y"), (BASELINE, "x"), layout=1)

    assert disagreeing([lucky]).keys() == {"a"}
    assert disagreeing([shaky, lucky]).keys() == frozenset()


def test_the_null_arm_is_a_witness_too():
    assert disagreeing([digests((BASELINE, "x"), (NULL, "x"), ("a", "y"))]).keys() == {"a"}
    assert disagreeing([digests((BASELINE, "x"), (NULL, "q"), ("a", "y"))]).keys() == frozenset()


def test_other_work_is_not_compared():
    half = block("a", digest="y", start=5, calls=5)
    round_ = round_of(block(BASELINE, digest="x"), block(BASELINE, digest="x"), half)

    assert disagreeing([round_]).keys() == frozenset()


def test_all_outcomes_and_some_of_them_are_not_compared():
    some = [round_of(*(block(arm, digest="s", kept=4) for arm in (BASELINE, NULL, "a"))) for _ in range(2)]
    full = round_of(block(BASELINE, digest="f"), block(NULL, digest="f"), block("a", digest="g"))

    assert disagreeing(some).keys() == unstable_groups(some) == frozenset()
    assert (disagreeing([*some, full]).keys(), unstable_groups([*some, full])) == ({"a"}, frozenset())


def starts(*pairs):
    return [
        round_of(block(BASELINE), block("a"), layout=layout, start_ns={BASELINE: base * MS, "a": own * MS})
        for layout, (base, own) in enumerate(pairs)
    ]


def test_work_moved_to_import_is_found_by_what_the_start_costs():
    rounds = starts((200, 400), (210, 405), (190, 410))

    assert starting_longer(rounds).keys() == {"a"}
    out = misconduct(rounds)["a"]
    assert (out.status, out.code) == (CandidateStatus.LOST, Code.NOT_CONFIRMED)
    assert "0.20 s of CPU time more" in out.reason


def test_a_small_table_or_a_compiled_module_is_no_cheat():
    assert starting_longer(starts(*[(200, 280)] * 6)) == {}


def test_one_slow_start_is_an_accident():
    assert starting_longer(starts((200, 200), (200, 900), (200, 210))) == {}
    assert starting_longer(starts((200, 900), (200, 900))) == {}


def test_starts_of_one_layout_are_one_start():
    same = [round_of(start_ns={BASELINE: 200 * MS, "a": 900 * MS}) for _ in range(6)]

    assert starting_longer(same) == {}


def test_processes_left_behind_are_measured_by_the_baselines():
    quiet = round_of(block(BASELINE, children=1), block(NULL, children=2), block("a", children=1))

    assert leaking([quiet]).keys() == frozenset()
    assert leaking([quiet, round_of(block("a", children=2))]).keys() == {"a"}
    assert misconduct([round_of(block("a", children=1))])["a"].code is Code.LEAKED_PROCESS


def test_the_docs_have_the_table():
    page = (Path(__file__).parents[3] / "docs/explanation/race.md").read_text(encoding="utf-8")
    said = [(out.code, out.reason) for out in MISCONDUCT.values()]
    said += [
        (Code.TOO_NOISY if test in UNSURE else Code.SUSPECT, sentence) for test, sentence in DOUBTS.items()
    ]
    for code, sentence in said:
        assert f"| `{code}` | {re.sub(r'{.*?}', '…', sentence)} |" in page
