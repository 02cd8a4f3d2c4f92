"""The protocols have the calls that their implementers offer, with the same parameters."""

from __future__ import annotations

import inspect

import pytest

from codeflash_parallel.process.launcher.child_connection import ControlChannel
from codeflash_parallel.process.launcher.launcher import Launcher, LauncherForkServer
from codeflash_parallel.result import runtime_protocols as protocols
from codeflash_parallel.warm.warm_server import WarmServer
from codeflash_parallel.workspace.slot.slot import Slot

PAIRS = [
    (protocols.LineChannel, ControlChannel),
    (protocols.ForkServerProtocol, LauncherForkServer),
    (protocols.ProcessRunner, Launcher),
    (protocols.WarmProcess, WarmServer),
    (protocols.WorkspaceTree, Slot),
]


@pytest.mark.parametrize(("protocol", "implementer"), PAIRS, ids=lambda kind: kind.__name__)
def test_an_implementer_has_the_calls_of_its_protocol(protocol: type, implementer: type) -> None:
    for name, call in vars(protocol).items():
        if name.startswith("_") or not inspect.isfunction(call):
            continue
        theirs = getattr(implementer, name)
        inspect.signature(theirs).bind(*inspect.signature(call).parameters)
        assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(call), name


def test_a_server_that_is_gone_says_how_it_ended() -> None:
    ended = protocols.ProcessExit(ended=protocols.ExitKind.EXITED, status=1)
    assert protocols.ServerGone("It is gone.", ended).exit == ended
    assert protocols.ServerGone("It was never there.").exit is None
