"""When a command is handed to the background process, and what it does where that does not answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeflash_parallel.cli import warm_client, warm_protocol
from codeflash_parallel.cli.exit_codes import SignalInterrupt
from codeflash_parallel.cli.warm_client import end_daemon, run_warm
from codeflash_parallel.cli.warm_protocol import LineReader, LockContent, receive_command, send_line, stamp
from codeflash_parallel.process.local_socket import short_address
from codeflash_parallel.result.errors import EnvironmentFault

CHECK = ("check", "--keep-warm", "--cache-dir", "cache")


@pytest.fixture(autouse=True)
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start no daemon: what is served here is served by a thread of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warm_client, "_start", lambda _folder: None)
    monkeypatch.setattr(warm_protocol, "PATIENCE_S", 0.2)
    (tmp_path / "cache" / "warm").mkdir(parents=True)
    return tmp_path


@contextmanager
def daemon(folder: Path, *words: dict[str, object], silent: bool = False) -> Iterator[list[object]]:
    """Serve one client: agree, take its command, say words, and leave."""
    heard: list[object] = []

    def serve() -> None:
        with listener.accept()[0] as connection:
            lines = LineReader(connection)
            heard.append(lines.next())
            if heard == [None]:
                return
            if silent:
                connection.settimeout(5)
                connection.recv(1)
                return
            send_line(connection, **words[0])
            if words[0] == {"answer": "go"} and len(words) > 1:
                command, streams = receive_command(connection)
                heard.append(command)
                warm_protocol._close_all(streams)
                for word in words[1:]:
                    send_line(connection, **word)

    with socket.socket(socket.AF_UNIX) as listener, short_address(folder / "daemon.socket") as address:
        listener.bind(address)
        listener.listen()
        (folder / "daemon.lock").write_text("\n".join(LockContent("1", "token", stamp())))
        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        thread.join(5)
        assert not thread.is_alive()


GO: dict[str, object] = {"answer": "go"}


def test_the_exit_code_is_that_of_the_daemon(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP", "open")
    with daemon(at / "cache" / "warm", GO, {"used": True}, {"exit": 7}) as heard:
        assert run_warm(CHECK) == 7
    asked, command = heard
    assert asked == {"token": "token", "do": "run"}
    assert isinstance(command, dict)
    assert (command["arguments"], command["cwd"]) == (list(CHECK), str(at))
    assert command["environment"]["SHOP"] == "open"


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--cache-dir", "cache"),
        (*CHECK, "--no-keep-warm"),
        (*CHECK, "--help"),
        (*CHECK, "--executor", "queue"),
        (*CHECK, "--ranking", "mine:order"),
        (*CHECK, "--executor", "nowhere"),
        ("check", "--cache-dir", "cache", "--", "--keep-warm"),
    ],
)
def test_commands_that_run_by_themselves(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_client, "_reach", lambda _folder: pytest.fail("it looked for the daemon"))
    assert run_warm(arguments) is None


def test_the_setting_may_stand_anywhere(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []
    monkeypatch.setattr(warm_client, "_reach", asked.append)
    monkeypatch.setenv("CODEFLASH_PARALLEL_KEEP_WARM", "1")
    assert run_warm(("run", "--cache-dir=cache")) is None
    monkeypatch.delenv("CODEFLASH_PARALLEL_KEEP_WARM")
    (at / "pyproject.toml").write_text('[tool.codeflash-parallel]\nkeep-warm = true\ncache-dir = "other"\n')
    assert run_warm(("check",)) is None
    assert asked == [at / "cache" / "warm", at / "other" / "warm"]


@pytest.mark.parametrize("lock", ["", "1\ntoken\nother", None])
def test_without_a_daemon_of_our_kind_the_command_runs_here(at: Path, lock: str | None) -> None:
    if lock is None:
        (at / "cache" / "warm" / "daemon.lock").write_text("\n".join(LockContent("1", "token", stamp())))
    else:
        (at / "cache" / "warm" / "daemon.lock").write_text(lock)
    assert run_warm(CHECK) is None


def test_a_busy_or_silent_daemon_is_not_waited_for(at: Path) -> None:
    with daemon(at / "cache" / "warm", {"answer": "busy"}):
        assert run_warm(CHECK) is None
    (at / "cache" / "warm" / "daemon.socket").unlink()
    with daemon(at / "cache" / "warm", silent=True):
        assert run_warm(CHECK) is None


def test_another_user_s_daemon_gets_nothing(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_client, "peer_is_ours", lambda _peer: False)
    with daemon(at / "cache" / "warm", {"answer": "go"}) as heard:
        assert run_warm(CHECK) is None
    assert heard == [None]


def test_a_daemon_that_dies(at: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with daemon(at / "cache" / "warm", GO, {}):
        assert run_warm(CHECK) is None
    assert capsys.readouterr().err.count("it is run again, here") == 1
    (at / "cache" / "warm" / "daemon.socket").unlink()
    with daemon(at / "cache" / "warm", GO, {"used": True}), pytest.raises(EnvironmentFault) as told:
        run_warm(CHECK)
    assert told.value.code == "WARM_PROCESS_GONE"


def test_a_daemon_that_dies_after_a_signal() -> None:
    with socket.socket() as connection:
        command = warm_client._WarmCommand(connection)
        command._signals = ["SIGTERM"]
        with pytest.raises(SignalInterrupt) as told:
            command._gone(used=True)
        assert told.value.code == "SIGTERM"
        command._signals = ["SIGTERM", "SIGINT"]
        assert command._gone(used=True) == 130


def test_an_idle_daemon_is_ended(at: Path) -> None:
    end_daemon(at / "cache")
    with daemon(at / "cache" / "warm", GO) as heard:
        end_daemon(at / "cache")
    assert heard == [{"token": "token", "do": "end"}]
