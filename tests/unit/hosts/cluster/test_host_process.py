"""The process of a job: its messages, its last words, and its end."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness import wait_for
from host_jobs import refused_job

from codeflash_parallel.hosts.cluster import host_process, host_run
from codeflash_parallel.hosts.cluster.host_process import end_kept, messages_of

#: What ends a job has so long to do it; nothing here asserts that it is quick.
DEADLINE_S = 20.0
Children = Callable[[str], Path]


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Children:
    """Have a script of Python executed in the place of a job; returns the file that names its process."""

    def put(script: str) -> Path:
        place, names = tmp_path / "child", tmp_path / "pid"
        head = f"#!{sys.executable}\nimport json, os, signal, sys, time\n"
        said = f"open({str(names)!r}, 'w').write(str(os.getpid()))\n"
        say = "def say(**fields): print(json.dumps(fields), flush=True)\n"
        place.write_text(head + said + say + script, encoding="utf-8")
        place.chmod(0o755)
        monkeypatch.setattr(host_process, "sys", SimpleNamespace(executable=str(place)))
        return names

    return put


def no_bundle() -> bytes:
    raise AssertionError("nobody has asked for it")


def all_of(job: str, bundle: Callable[[], bytes] = no_bundle) -> list[dict[str, Any]]:
    with closing(messages_of(job, "here", bundle)) as messages:
        return list(messages)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def children() -> list[int]:
    """Return the children of this process that nobody has waited for."""
    found = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return [int(pid) for pid in found]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before, files = children(), open_files()
    yield
    end_kept()
    assert children() == before
    assert open_files() <= files


# --- messages ----------------------------------------------------------------------------------------------


def test_the_job_is_the_first_line_and_messages_come_as_they_are(child: Children) -> None:
    child(
        "say(t='began', arguments=sys.argv[1:], job=sys.stdin.readline())\n"
        "say(t='step', text='\\n\\u00e9')\n"
        "say(t='ended', race=None)\n"
    )
    began, step, ended = all_of('{"a": 1}')
    assert began["arguments"] == ["-m", "codeflash_parallel.hosts.cluster.host_run", "here"]
    job = json.loads(began["job"])
    assert job["job"] == {"a": 1}
    assert 0 < job["sent_s"] <= time.monotonic()
    assert began["job"].count("\n") == 1
    assert (step["text"], ended) == ("\n\u00e9", {"t": "ended", "race": None})


def test_messages_come_while_the_job_runs(child: Children) -> None:
    child("say(t='began')\nsys.stdin.readline()\nsys.stdin.readline()\n")
    with closing(messages_of("job", "here", no_bundle)) as messages:
        assert next(messages) == {"t": "began"}


def test_a_bundle_is_sent_when_it_is_asked_for(child: Children) -> None:
    child(
        "sys.stdin.buffer.readline()\n"
        "say(t='bundle')\n"
        "data = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))\n"
        "say(t='ended', size=len(data), whole=data == bytes(range(256)) * 4000)\n"
    )
    wanted: list[int] = []

    def bundle() -> bytes:
        wanted.append(1)
        return bytes(range(256)) * 4000

    assert all_of("job", bundle) == [{"t": "ended", "size": 1024000, "whole": True}]
    assert wanted == [1]


def test_an_empty_bundle_is_one(child: Children) -> None:
    child(
        "sys.stdin.readline()\nsay(t='bundle')\nsize = int(sys.stdin.readline())\nsay(t='fault', size=size)\n"
    )
    assert all_of("job", lambda: b"") == [{"t": "fault", "size": 0}]


# --- processes that die ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "status", "words"),
    [
        ("raise ValueError('no such thing')", 1, "ValueError: no such thing"),
        ("sys.exit('cannot go on')", 1, "cannot go on"),
        ("sys.exit(0)", 0, ""),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, ""),
    ],
    ids=["raises", "exits", "just ends", "killed"],
)
def test_one_that_dies_is_lost_with_its_last_words(
    child: Children, script: str, status: int, words: str
) -> None:
    child(f"sys.stdin.readline()\nsay(t='began')\n{script}\n")
    began, lost = all_of("job")
    assert began == {"t": "began"}
    assert (lost["t"], lost["host"]) == ("lost", "here")
    assert f"status {status}." in lost["why"]
    assert lost["why"].strip().endswith(words)


def test_one_that_reads_nothing_is_lost_too(child: Children) -> None:
    child("os.close(0)\nsys.exit('I read nothing')\n")
    (lost,) = all_of("job" * 1_000_000)
    assert (lost["t"], lost["why"].split()[-3:]) == ("lost", ["I", "read", "nothing"])


def test_one_that_dies_while_it_writes_is_lost(child: Children) -> None:
    child("sys.stdin.readline()\nprint('{\"t\": \"st', end='', flush=True)\nos.kill(os.getpid(), 9)\n")
    (lost,) = all_of("1")
    assert lost["t"] == "lost"
    assert lost["why"].startswith("its process ended with status -9.")


def test_one_that_dies_before_it_has_its_bundle_is_lost_with_its_last_words(child: Children) -> None:
    child("sys.stdin.readline()\nsay(t='bundle')\nsys.exit('there is no room')\n")
    (lost,) = all_of("1", lambda: b"x" * 10_000_000)
    assert lost["t"] == "lost"
    assert lost["why"].endswith("there is no room")


def test_of_long_last_words_the_end_is_told(child: Children) -> None:
    child("sys.stdin.readline()\nsys.exit('x' * 100_000 + ' the end')\n")
    (lost,) = all_of("job")
    assert lost["why"].endswith("x the end")
    assert len(lost["why"]) < 2000


def test_one_that_is_killed_from_outside_is_lost(child: Children) -> None:
    names = child("sys.stdin.readline()\nsay(t='began')\nsys.stdin.readline()\n")
    with closing(messages_of("job", "here", no_bundle)) as messages:
        next(messages)
        os.kill(int(names.read_text()), signal.SIGKILL)
        assert next(messages)["t"] == "lost"
        assert list(messages) == []


@pytest.mark.parametrize("t", ["ended", "fault"])
def test_after_the_last_message_a_status_does_not_matter(child: Children, t: str) -> None:
    child(f"sys.stdin.readline()\nsay(t={t!r})\nos._exit(7)\n")
    assert all_of("job") == [{"t": t}]


def test_a_job_that_is_none_is_lost_with_what_the_real_child_says() -> None:
    (lost,) = all_of("[]")
    assert lost["t"] == "lost"
    assert "Error" in lost["why"]


def test_the_real_child_refuses_a_job_of_another_version() -> None:
    (fault,) = all_of(refused_job())
    assert (fault["t"], fault["code"], fault["host"]) == ("fault", "OTHER_VERSION", "here")


# --- one job after the other -------------------------------------------------------------------------------

#: Executes jobs until its standard input ends.
SESSION = "for job in sys.stdin: say(t='ended', job=json.loads(job)['job'], pid=os.getpid())\n"


def test_the_process_of_a_job_that_ended_does_the_next_one(child: Children) -> None:
    child(SESSION)
    (first,), (second,) = all_of("1"), all_of("2")
    assert (first["job"], second["job"]) == (1, 2)
    assert first["pid"] == second["pid"]
    assert is_alive(first["pid"])
    end_kept()
    assert not is_alive(first["pid"])
    end_kept()  # there is none any more


def test_another_one_is_started_where_the_kept_one_is_gone(child: Children) -> None:
    child(SESSION)
    (first,) = all_of("1")
    os.kill(first["pid"], signal.SIGKILL)
    assert wait_for(lambda: not is_alive(first["pid"]), DEADLINE_S)
    (second,) = all_of("2")
    assert second["job"] == 2
    assert second["pid"] != first["pid"]


def test_one_that_is_about_to_end_itself_takes_no_job(
    child: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    child(SESSION)
    (first,) = all_of("1")
    assert host_process._TAKES_S < host_run._IDLE_S
    monkeypatch.setattr(host_process, "_TAKES_S", 0.0)
    (second,) = all_of("2")
    assert second["pid"] != first["pid"]
    assert not is_alive(first["pid"])


@pytest.mark.parametrize("t", ["fault", "lost"])
def test_the_process_of_a_job_that_did_not_end_is_not_kept(child: Children, t: str) -> None:
    names = child(f"sys.stdin.readline()\n{'say(t=' + repr(t) + ')' if t == 'fault' else ''}\n")
    assert [message["t"] for message in all_of("1")] == [t]
    assert not is_alive(int(names.read_text()))
    assert host_process._kept == []


def test_a_process_is_not_kept_whose_job_was_closed(child: Children) -> None:
    child("sys.stdin.readline()\nsay(t='began')\nsys.stdin.read()\n")
    with closing(messages_of("1", "here", no_bundle)) as messages:
        next(messages)
    assert host_process._kept == []


# --- the end -----------------------------------------------------------------------------------------------


def test_closing_ends_a_child_that_listens(child: Children) -> None:
    names = child("sys.stdin.readline()\nsay(t='began')\nsys.stdin.read()\n")
    messages = messages_of("job", "here", no_bundle)
    next(messages)
    pid = int(names.read_text())
    messages.close()
    assert not is_alive(pid)


@pytest.mark.slow
def test_closing_kills_a_child_that_does_not_with_its_children(child: Children) -> None:
    names = child(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "below = os.fork()\n"
        "if below: say(t='began', below=below)\n"
        "time.sleep(600)\n"
    )
    messages = messages_of("job", "here", no_bundle)
    below = next(messages)["below"]
    since_s = time.monotonic()
    messages.close()
    assert time.monotonic() - since_s < DEADLINE_S
    assert wait_for(lambda: not is_alive(int(names.read_text())), DEADLINE_S)
    assert wait_for(lambda: not is_alive(below), DEADLINE_S)


def test_an_iterator_that_was_never_begun_starts_nothing(child: Children) -> None:
    names = child("sys.stdin.read()\n")
    messages_of("job", "here", no_bundle).close()
    assert not names.exists()


def test_a_fault_of_the_bundle_ends_the_child(child: Children) -> None:
    names = child("sys.stdin.readline()\nsay(t='bundle')\nsys.stdin.read()\n")

    def gone() -> bytes:
        raise OSError("the bundle is gone")

    with pytest.raises(OSError, match="the bundle is gone"):
        all_of("job", gone)
    assert not is_alive(int(names.read_text()))
