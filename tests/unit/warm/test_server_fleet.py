"""What is known of fork points, in a run and on disk."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from codeflash_parallel.check.dispatch.fork_points import LONG_SUITE_S, ForkPoint
from codeflash_parallel.warm.server_fleet import Fleet, ForkPointStore

TESTS_COLLECTED, TESTS_IMPORTED = ("tests", ForkPoint.COLLECTED), ("tests", ForkPoint.IMPORTED)
NOTHING: Any = None


def fleet(tmp_path: Path, suite_s: float = 1.0, *, new_process: str = "") -> Fleet:
    baseline = SimpleNamespace(suite_s=suite_s, calls={}, wall_ns=10**9)
    plan: Any = SimpleNamespace(new_process=new_process, baseline=baseline, compare_values=True)
    return Fleet(launcher=NOTHING, plan=plan, folder=tmp_path)


def test_findings_are_kept_on_disk(tmp_path: Path) -> None:
    first, second = ForkPointStore(tmp_path / "known"), ForkPointStore(tmp_path / "known")
    first.note(("replay", ForkPoint.COLLECTED), "", frozenset({"random"}))
    first.note(TESTS_IMPORTED, "a thread is started")
    first.write()
    assert second.read() == {("replay", ForkPoint.COLLECTED): "", TESTS_IMPORTED: "a thread is started"}
    assert second.unkept == {"random"}
    (tmp_path / "known").write_text("[")
    assert ForkPointStore(tmp_path / "known").read() == {}


def test_a_point_is_used_once_it_is_verified(tmp_path: Path) -> None:
    servers = fleet(tmp_path)
    assert servers.obstacle(TESTS_IMPORTED) == "it has not been compared with a new process yet"
    servers.is_unfit(TESTS_IMPORTED, "a thread is started")
    assert servers.obstacle(TESTS_IMPORTED) == servers.obstacle(TESTS_COLLECTED) == "a thread is started"
    assert servers.warnings() == ["Warm servers are not used at imported: a thread is started."]
    assert servers.warnings() == []


def test_a_template_that_dies_twice_is_given_up(tmp_path: Path) -> None:
    servers = fleet(tmp_path)
    servers.died(TESTS_IMPORTED, "The warm server is gone.")
    assert servers.unfit == {}
    servers.died(TESTS_IMPORTED, "The warm server is gone.")
    assert servers.reasons() == ("imported of tests: the warm server is gone",)


def test_long_suites_have_no_servers(tmp_path: Path) -> None:
    assert fleet(tmp_path).off == ""
    assert fleet(tmp_path, 2 * LONG_SUITE_S).off == "the tests take 40 s"
    assert fleet(tmp_path, new_process="one was asked for").off == "one was asked for"
