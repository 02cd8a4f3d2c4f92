"""Parts of a run, and races that travel between hosts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ranking_cases import CONFIRM, held

from codeflash_parallel.race.race_result import RaceFailed, RaceRanking
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.outcome_codes import Verdict
from codeflash_parallel.result.result_model import LineProfile, LineTiming
from codeflash_parallel.run.ledger import RaceFinding
from codeflash_parallel.run.remote_hosts import RemoteRace, RunPart

RANKING = RaceRanking(
    verdict=Verdict.TIE, winner="a", tie_set=("a", "b"), candidates=(), summary="a and b tie.", notes=("n",)
)
FOUND = RaceFinding(
    races=(held({"a": 1.5, "b": 1.5}), RaceFailed(candidates=("c",), reason="It died.")),
    confirmations=(held({"a": 1.5, "b": 1.5}, CONFIRM),),
    ranking=RANKING,
)


@pytest.mark.parametrize(
    "race",
    [
        RemoteRace(host="h1"),
        RemoteRace(host="", finding=RaceFinding(not_held="Hosts were lost in it.")),
        RemoteRace(host="h1-0a1b", finding=FOUND, timed={"why": "asked", "timed": "all tests"}),
        RemoteRace(host="h1", finding=FOUND, intervals=((3, 1 << 62), ((1 << 62) + 1, 1 << 63))),
    ],
    ids=["nothing", "not held", "held", "when"],
)
def test_a_race_is_the_same_after_its_journey(race: RemoteRace) -> None:
    text = json.dumps(to_plain(race, RemoteRace))
    found: RemoteRace = from_plain(RemoteRace, json.loads(text))
    assert found == race
    assert found.finding.leaders == race.finding.leaders
    assert found.finding.outcomes == race.finding.outcomes


def test_profiles_travel_with_it() -> None:
    line = LineTiming(path="a.py", line=3, hits=9, time_ns=7, text="x = 1")
    profile = LineProfile(tracer="sys.settrace", lines=(line,))
    race = RemoteRace(host="h1", finding=replace(FOUND, winner_profile=profile))
    assert from_plain(RemoteRace, json.loads(json.dumps(to_plain(race, RemoteRace)))) == race


def test_the_names_of_parts_are_words_of_jobs() -> None:
    assert {part.value for part in RunPart} == {"whole", "checks", "race", "probe"}
    assert [from_plain(RunPart, to_plain(part)) for part in RunPart] == list(RunPart)
    with pytest.raises(ValueError, match="half"):
        from_plain(RunPart, "half")
