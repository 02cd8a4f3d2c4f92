"""Codes know their own properties."""

import pickle

import pytest

from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait


def with_trait(trait):
    return {code.name for code in Code if trait in code.traits}


@pytest.mark.parametrize("code", Code)
def test_a_code_is_its_name_and_comes_back_whole(code):
    assert code == code.name == code.value
    assert Code(code.value) is code
    assert pickle.loads(pickle.dumps(code)).traits == code.traits


@pytest.mark.parametrize("trait", Trait)
def test_every_trait_has_codes(trait):
    assert with_trait(trait)


def test_the_machine_is_to_blame_for_what_says_so():
    named = {code.name for code in Code if code.name.startswith("INFRA_")}
    assert with_trait(Trait.INFRA) == named | {"HOSTS_DISAGREE"}


def test_limits_are_the_candidates_own():
    assert not with_trait(Trait.LIMIT) & with_trait(Trait.INFRA)


def test_of_two_calls_that_differ_the_first_code_is_the_graver_one():
    of_calls = [code for code in Code if code.call_words or code in {Code.NOT_ACCEPTED, Code.STATE_DIFFERS}]
    assert of_calls == [
        Code.VALUE_DIFFERS,
        Code.NOT_ACCEPTED,
        Code.TOO_SLOW,
        Code.TYPE_DIFFERS,
        Code.INPUT_MUTATED,
        Code.STATE_DIFFERS,
        Code.FLOAT_DIFFERS,
    ]


def test_the_best_are_equivalent():
    assert {status for status in CandidateStatus if status.is_best} == {"won", "tied"}
    assert {status for status in CandidateStatus if status.is_equivalent} == {
        "won",
        "tied",
        "lost",
        "undecided",
    }
