"""How far a run goes."""

from __future__ import annotations

from enum import StrEnum


class RaceMode(StrEnum):
    """How far a run goes."""

    #: Check, race, profile, refine.
    RACE = "race"
    #: Check and race.
    TIME = "time"
    #: Check only.
    CHECK = "check"
