"""Twins: other values of the same shape; and the figure that they give."""

from __future__ import annotations

import re
from dataclasses import replace
from math import exp
from random import Random
from types import SimpleNamespace

import pytest

from codeflash_parallel._runner.inputs import call_relations, twin_inputs
from codeflash_parallel._runner.values import argument_pickler, call_files
from codeflash_parallel.race.guards import disagreeing
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan
from codeflash_parallel.race.statistics.log_ratios import track


def changed(*calls, way=0, seed=0, words=frozenset()):
    """Return a twin of the last of some calls (args, kwargs), and the relation that it breaks."""
    known = twin_inputs._freed(call_relations.infer(list(calls)))
    made = SimpleNamespace(known=known, flags=set(known.places), words=words, way=way)
    args, kwargs = twin_inputs._Change(made, Random(seed)).of(*calls[-1])
    return args, kwargs, known.broken(args, kwargs)


@pytest.mark.parametrize("seed", range(5))
def test_letters_and_digits_are_exchanged_alike_all_over_a_call(seed):
    text, words = "Foo-bar 42 FOO", ["foo", "bar"]

    (other, found), _, broken = changed((("x", ["x", "y"]), {}), ((text, words), {}), seed=seed)

    capital, middle, number, large = other.replace("-", " ").split()
    assert other != text
    assert capital.upper() == large
    assert sorted(found) == sorted([capital.lower(), middle])
    assert number.isdigit()
    assert broken == ""


def test_shifted_numbers_keep_their_order_and_distances():
    ((one, *more),), _, broken = changed(((list(range(5, 50)),), {}), ((list(range(7, 60)),), {}), seed=1)

    assert one != 7
    assert more == list(range(one + 1, one + 53))
    assert broken == ""


def test_words_of_the_source_may_be_kept_and_the_others_change():
    unknown = next(place for place, (level, _) in enumerate(twin_inputs._WAYS) if level == "unknown")

    (text,), _, _ = changed((("coding: spam",), {}), way=unknown, words=frozenset({"coding"}))

    assert text.startswith("coding: ")
    assert text != "coding: spam"


def test_a_buffer_is_changed_as_other_bytes_of_the_call_are():
    calls = [((bytearray(b"--%s 1" % word), word), {}) for word in (b"spam", b"eggs")]

    (buffer, word), _, broken = changed(*calls)

    assert word != b"eggs"
    assert word in buffer
    assert (type(buffer), broken) == (bytearray, "")


class Decoder:
    def __init__(self, boundary):
        self.boundary, self.buffer = boundary, bytearray(b"name --%s value" % boundary)
        self.pattern = re.compile(b"--" + re.escape(boundary))


@pytest.mark.parametrize("way", range(len(twin_inputs._WAYS)))
def test_what_a_pattern_of_the_call_looks_for_stays(way):
    calls = [((Decoder(word),), {}) for word in (b"spam", b"e-g")]

    (decoder,), _, _ = changed(*calls, way=way)

    assert decoder.boundary == b"e-g"
    assert decoder.pattern.search(decoder.buffer)


@pytest.mark.parametrize("place", [0, 1])
def test_one_argument_may_stay_while_the_others_change(place):
    way = next(number for number, (level, _) in enumerate(twin_inputs._WAYS) if level == place)

    arguments, _, _ = changed((("H: spam", b"\0a"), {}), (("L: eggs", b"\0bc"), {}), way=way)

    assert [one == old for one, old in zip(arguments, ("L: eggs", b"\0bc"), strict=True)] == [
        place == 0,
        place == 1,
    ]


def test_what_always_has_one_value_stays():
    calls = [((f"text{n}abc",), {"mode": "strict", "flag": True}) for n in range(5)]

    _, kwargs, broken = changed(*calls)

    assert kwargs == {"mode": "strict", "flag": True}
    assert broken == ""


PLAN = RacePlan(groups=(CostGroup(name="a", ns=3, twins=((0,), (1,))), CostGroup(name="b", ns=1)))


def maker_and_seed(ns):
    """Return a maker of twins, and a call of two texts that takes so long, as far as is known."""
    call = call_files.Call({"i": 3, "target": 0}, argument_pickler.dumps((("some text", "of 2"), {}), 1_000))
    known = call_relations.infer([(("some text", "of 2"), {}), (("another one", "by 5"), {})])
    seed = SimpleNamespace(
        call=call, known=known, flags=set(), words=frozenset(), way=None, kind="returns int", ns=ns
    )
    return twin_inputs._Maker({"root": "/", "targets": [], "modules": [], "seed": 1}, {3: call}), seed


def arguments_of(twin):
    return call_files.load(call_files.Call(*twin))[0]


@pytest.mark.parametrize("first_ns", [10**9, 1_000_000])
def test_a_call_whose_first_timing_was_disturbed_has_twins_all_the_same(monkeypatch, first_ns):
    maker, seed = maker_and_seed(first_ns)
    monkeypatch.setattr(maker, "_ended", lambda _blob, _seed: ("returns int", 100_000, 100_000))

    twin = maker._twin(seed, 10**18)

    assert twin[0]["base"] == 3
    assert arguments_of(twin)[0] != "some text"


@pytest.mark.parametrize("first_ns", [10**9, 5_000_000, 1_000_000])
def test_a_group_whose_first_timing_was_disturbed_has_as_many_twins_as_others(monkeypatch, first_ns):
    maker, seed = maker_and_seed(first_ns)
    monkeypatch.setattr(maker, "_seeded", lambda _index: seed)
    monkeypatch.setattr(maker, "_ended", lambda _blob, _seed: ("returns int", 100_000, 100_000))

    assert len(maker.twins_of([3], 1)) == 30


def test_what_the_project_keeps_by_one_argument_is_not_made_anew_for_twins(monkeypatch):
    maker, seed = maker_and_seed(100_000)

    def ended(blob, seed):
        kept = arguments_of((seed.call.meta, blob))[0] == "some text"
        return "returns int", 100_000, 100_000 if kept else 900_000

    monkeypatch.setattr(maker, "_ended", ended)

    first, second = (arguments_of(maker._twin(seed, 10**18)) for _ in range(2))

    assert first[0] == second[0] == "some text"
    assert len({"of 2", first[1], second[1]}) == 3


def test_where_the_project_keeps_all_it_was_asked_twins_are_such_as_it_has_not_seen(monkeypatch):
    maker, seed = maker_and_seed(100_000)
    monkeypatch.setattr(maker, "_ended", lambda _blob, _seed: ("returns int", 100_000, 900_000))

    first, second = (arguments_of(maker._twin(seed, 10**18)) for _ in range(2))

    assert len({"some text", first[0], second[0]}) == 3


def round_of(number, arm, known, unseen, digest="same"):
    """A round in which an arm is so many times as fast; a block of twins costs a millisecond beside."""
    blocks = []
    for group in (0, 1):
        for name, gain in ((BASELINE, 1), (arm, known), (arm, known), (BASELINE, 1)):
            blocks.append(timed(name, BlockKind.TIMED, group, 10_000_000 / gain))
    for start in (0, 100):
        blocks.append(timed(BASELINE, BlockKind.KNOWN, 0, 10_000_000 + 1e6, start=start))
        for name, gain, own in ((BASELINE, 1, "same"), (arm, unseen, digest)):
            blocks.append(timed(name, BlockKind.TWIN, 0, 10_000_000 / gain + 1e6, start=start, digest=own))
    return Round(number=number, layout=0, core=0, blocks=tuple(blocks))


def timed(arm, kind, group, ns, **more):
    return Block(arm=arm, kind=kind, group=group, calls=100, cpu_ns=round(ns), wall_ns=round(ns), **more)


def test_the_figure_on_twins_is_that_of_groups_that_have_them():
    honest = track([round_of(0, "x", 4, 4)], "x", PLAN)
    memo = track([round_of(0, "x", 4, 1)], "x", PLAN)
    none = track([round_of(0, "x", 4, 1)], "x", replace(PLAN, groups=(PLAN.groups[1], PLAN.groups[1])))

    assert exp(honest.unseen[0]) == pytest.approx(4), "what a short block costs beside is taken off"
    assert (exp(memo.unseen[0]), exp(memo.known[0])) == (pytest.approx(1), pytest.approx(4))
    assert none.unseen == none.known == ()


def test_what_the_project_finds_once_for_each_new_input_is_not_held_against_a_gain():
    """A millisecond for as much work is that of a block of twins; here it is 40 for 10 of usual work."""

    def found(known, unseen):
        round_ = round_of(0, "x", known, unseen)
        costs = {BlockKind.TWIN: 39_000_000}
        blocks = [replace(b, cpu_ns=b.cpu_ns + costs.get(b.kind, 0)) for b in round_.blocks]
        return exp(track([replace(round_, blocks=tuple(blocks))], "x", PLAN).unseen[0])

    assert found(2, 2) == pytest.approx(2)
    assert found(4, 1) == pytest.approx(1), "a memo"
    assert found(4, 4 / 3) == pytest.approx(4 / 3), "a memo, and a third faster"
    assert found(2, 10) == pytest.approx(2), "no more than on known inputs"


def test_outcomes_on_twins_are_compared():
    rounds = [round_of(number, "x", 2, 2, digest="other") for number in range(2)]

    assert disagreeing(rounds).keys() == {"x"}
    assert disagreeing([round_of(number, "x", 2, 2) for number in range(2)]) == {}
