"""Templates that are none, and orders of forks that are killed."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from codeflash_parallel._runner import session
from codeflash_parallel._runner.forkserver import template_server


def test_no_template_for_tests_that_other_processes_run() -> None:
    with pytest.raises(session.RunnerFailure, match="xdist's workers"):
        template_server.begin({"workers": 2}, None, 0)


def test_a_standby_fork_that_was_killed_is_replaced() -> None:
    standby = template_server._StandbyFork()
    reading, writing = os.pipe()
    if standby.fork():
        os.write(writing, b"%6d" % os.getpid())
        order, _ = standby.awaited()
        if order["op"] == "fork":
            standby.accept()
            os.write(writing, b"%6d" % order["n"])
        os._exit(0)
    first = int(os.read(reading, 6))
    os.kill(first, signal.SIGKILL)
    if standby.hand_over({"op": "fork", "n": 7}, []):
        order, _ = standby.awaited()
        standby.accept()
        os.write(writing, b"%6d" % order["n"])
        os._exit(0)
    assert int(os.read(reading, 6)) == 7
    standby.dismiss()
    for number in (reading, writing):
        os.close(number)


def test_where_a_module_lies() -> None:
    file = SimpleNamespace(has_location=True, origin="/a.py")
    namespace = SimpleNamespace(has_location=False, submodule_search_locations=["/a", "/b"])
    assert template_server._locations(file) == ["/a.py"]
    assert template_server._locations(namespace) == ["/a", "/b"]
    assert template_server._rss_bytes() > 1 << 20
