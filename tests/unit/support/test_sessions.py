"""The sessions of nox leave no test out, whatever markers it has."""

from __future__ import annotations

import importlib.util
from itertools import product
from pathlib import Path

import pytest

MARKERS = ("slow", "witness", "attack", "campaign", "real_projects")
#: Sessions that name what they run have these.
LONG = "campaign or real_projects"


def chosen(expression, marked):
    return bool(eval(expression, {}, dict(zip(MARKERS, marked, strict=True))))


def test_each_test_is_in_one_session():
    pytest.importorskip("nox")
    spec = importlib.util.spec_from_file_location("noxfile", Path(__file__).parents[3] / "noxfile.py")
    nox = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(nox)
    for marked in product((False, True), repeat=len(MARKERS)):
        thorough = [chosen(one, marked) for one in (nox.GATE, nox.WITNESSES, nox.ATTACKS)]
        assert sum([*thorough, chosen(LONG, marked)]) == 1, marked
        assert chosen(nox.THOROUGH, marked) == any(thorough), marked
        assert not chosen(nox.FAST, marked) or chosen(nox.GATE, marked), marked
