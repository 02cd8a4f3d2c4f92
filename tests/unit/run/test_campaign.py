"""The error budget of a campaign, in its file and in the rules of a race."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel import Settings
from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault
from codeflash_parallel.run.campaign import Campaign, share_of


def test_while_nothing_is_kept_the_shares_never_add_up_to_more_than_one():
    shares = [Fraction(1, number * (number + 1)) for number in range(1, 2001)]
    assert [share_of(n, 0) for n in range(1, 2001)] == pytest.approx([float(share) for share in shares])
    assert sum(shares) < 1


@given(st.integers(1, 10_000), st.data())
def test_what_was_kept_gives_error_back_and_never_more_than_half_of_it(number, data):
    kept = data.draw(st.integers(0, number - 1))
    assert share_of(number, kept) == pytest.approx((kept + 1) * share_of(number, 0))
    assert share_of(number, kept) <= 0.5


def test_comparisons_are_counted_and_kept_ones_remembered_by_their_runs(tmp_path: Path):
    campaign = Campaign(tmp_path, "nightly")
    first, second = campaign.begin("tree-1"), Campaign(tmp_path, "nightly").begin("tree-1")
    assert [(one.number, one.kept) for one in (first, second)] == [(1, 0), (2, 0)]
    campaign.keep("run-2", "tree-1")
    campaign.keep("run-2", "tree-1")
    third = campaign.begin("tree-2")
    assert (third.number, third.kept, third.not_applied) == (3, 1, "")
    assert third.share == pytest.approx(2 / 12)
    assert Campaign(tmp_path, "other").begin("tree-2").number == 1, "another campaign has a budget of its own"


def test_a_winner_that_is_not_in_the_tree_is_named(tmp_path: Path):
    campaign = Campaign(tmp_path, "nightly")
    campaign.begin("tree-1")
    campaign.keep("run-1", "tree-1")
    assert campaign.begin("tree-1").not_applied == "run-1"
    assert campaign.begin("tree-2").not_applied == ""


def test_no_number_is_given_twice(tmp_path: Path):
    def begin(_number: int) -> int:
        return Campaign(tmp_path, "shared").begin("tree").number

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(begin, range(40))) == [*range(1, 41)]


def test_a_damaged_file_does_not_begin_the_campaign_anew(tmp_path: Path):
    campaign = Campaign(tmp_path, "nightly")
    campaign.begin("tree")
    path = tmp_path / "campaigns" / "nightly.json"
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(EnvironmentFault, match="is damaged") as caught:
        campaign.begin("tree")
    assert caught.value.code == "BAD_CAMPAIGN"
    assert path.exists()


@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "with space", "é", "x" * 65, "-dash"])
def test_a_name_that_is_no_file_name_is_refused(name: str):
    with pytest.raises(CodeflashParallelError, match="campaign must be up to 64 letters"):
        Settings(campaign=name)


def test_a_campaign_makes_claims_harder_and_a_void_race_no_easier():
    plan = RacePlan(groups=(CostGroup(name="all", ns=1),))
    late = replace(plan, campaign_share=share_of(100, 0))
    assert late.alpha == pytest.approx(plan.alpha / 10_100)
    assert late.confirmation(1).alpha == pytest.approx(plan.confirmation(1).alpha / 10_100)
    assert late.confirmation(1).void_alpha == plan.confirmation(1).void_alpha
