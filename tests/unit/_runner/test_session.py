"""Specs, the template of this process, and the user's command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel._runner import session
from codeflash_parallel._runner.channels import RecordBuffer


class Server:
    def __init__(self) -> None:
        self.renewals: list[Callable[[], None]] = []

    def on_fork(self, renew: Callable[[], None]) -> None:
        self.renewals.append(renew)


@pytest.fixture(autouse=True)
def _no_template() -> Iterator[None]:
    yield
    session.set_template(None)


def test_a_spec_knows_its_place_and_its_protocol(tmp_path: Path) -> None:
    path = tmp_path / "spec"
    path.write_text(json.dumps({"protocol": session.PROTOCOL, "mode": "tests"}))
    assert session.read_spec(str(path)) == {"protocol": session.PROTOCOL, "mode": "tests", "path": str(path)}
    path.write_text(json.dumps({"protocol": 0}))
    with pytest.raises(session.RunnerFailure, match="protocol 0"):
        session.read_spec(str(path))


def test_a_template_is_registered_until_it_is_forked() -> None:
    session.on_fork(print)
    assert session.template() is None
    server = Server()
    session.set_template(server)
    session.on_fork(print)
    assert (session.template(), server.renewals) == (server, [print])
    session.set_template(None)
    assert session.template() is None


@pytest.mark.parametrize(
    ("command", "told", "status"),
    [(["python", "-c", "raise SystemExit(3)"], 3, 0), (["no-such-program"], None, 127)],
)
def test_a_command_is_run_and_its_status_recorded(command: list[str], told: Any, status: int) -> None:
    channel = RecordBuffer()
    assert session._run_command({"command": command}, channel) == status
    assert channel.records == [{"t": "command", "status": told}]
