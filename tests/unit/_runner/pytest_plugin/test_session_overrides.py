"""Options that would break a check are set to what it needs, where they exist."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from codeflash_parallel._runner.pytest_plugin.session_overrides import neutralise, without_writers

SPEC: dict[str, Any] = {"private": "/own", "seed": 7, "tracebacks": "none"}


def test_only_options_that_exist_are_set() -> None:
    option = Namespace(maxfail=1, lf=True, xmlpath="report.xml", cov_source=["x"], verbose=2, basetemp=None)
    neutralise(option, SPEC, in_worker=False)
    expected = {"maxfail": 0, "lf": False, "xmlpath": None, "cov_source": [], "verbose": 2}
    assert vars(option) == {**expected, "basetemp": "/own/basetemp"}


def test_a_worker_keeps_its_places_and_numbers() -> None:
    option = Namespace(basetemp="/tmp/gw0", numprocesses=None, tbstyle="long", randomly_seed=1)
    neutralise(option, SPEC, in_worker=True)
    assert vars(option) == {"basetemp": "/tmp/gw0", "numprocesses": None, "tbstyle": "no", "randomly_seed": 7}


def test_xdist_spreads_as_the_project_says_or_by_load() -> None:
    for wanted, workers, spread in (("loadfile", 2, "loadfile"), ("each", 2, "load"), ("load", 0, "no")):
        option = Namespace(dist=wanted, numprocesses=9, tx=["popen"])
        neutralise(option, {**SPEC, "workers": workers}, in_worker=False)
        assert vars(option) == {"dist": spread, "numprocesses": workers, "tx": []}


def test_arguments_that_open_files_are_left_out() -> None:
    given = ["-q", "--debug", "--debug=x", "--benchmark-json=y", "tests"]
    assert without_writers(given) == ["-q", "tests"]
