"""The protocol has the calls that its implementer offers, with the same parameters."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

from codeflash_parallel.result import runtime_protocols as protocols
from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy
from codeflash_parallel.warm.warm_server import WarmServer


def test_a_warm_server_has_the_calls_of_its_protocol() -> None:
    for name, call in vars(protocols.WarmProcess).items():
        if name.startswith("_") or not inspect.isfunction(call):
            continue
        theirs = getattr(WarmServer, name)
        inspect.signature(theirs).bind(*inspect.signature(call).parameters)
        assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(call), name


def test_a_server_that_is_gone_says_how_it_ended() -> None:
    ended = protocols.ProcessExit(ended=protocols.ExitKind.EXITED, status=1)
    assert protocols.ServerGone("It is gone.", ended).exit == ended
    assert protocols.ServerGone("It was never there.").exit is None


def test_a_workspace_may_be_seen_at_another_path() -> None:
    slot, place = Path("/cache/slots/run/2"), Path("/cache/mounted/slot")
    plain = protocols.Workspace(
        root=slot / "shop",
        project=slot / "shop" / "api",
        user_root=Path("/user/shop"),
        interpreter=Path("/python"),
        private=slot / "private",
        environment={"HOME": f"{slot}/private/home"},
        isolation=IsolationPolicy(level=IsolationLevel.SANDBOX),
    )
    assert plain.seen(plain.project) == plain.project
    mounted = replace(plain, mounted=place, environment={"HOME": f"{place}/private/home"})
    assert mounted.seen(mounted.project) == place / "shop" / "api"
    assert mounted.unconfined() == replace(plain, isolation=IsolationPolicy())
