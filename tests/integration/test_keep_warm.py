"""`--keep-warm` with real processes: the same answers, sooner; whatever happens to either side, one clear end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from harness import Finished, Place, Started, end_daemons, make_place, processes_of, wait_for
from projects import FAST_TOTAL, WRONG_TOTAL, make_project

from codeflash_parallel import Evaluator, RaceMode, Replacement, Settings, Submission, evaluate
from codeflash_parallel.cli.warm_protocol import read_lock, warm_folder
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.process.local_socket import short_address
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.run import kept_evaluators
from codeflash_parallel.run.kept_evaluators import library_thread

# In `nox -s read_only` each command has mounts of its own, hence a daemon of its own; and the tree is changed here.
pytestmark = [pytest.mark.slow, pytest.mark.writes_while_open]

#: A test that fails where the user says so, and hangs while a file is there.
TESTS = """
import os, time
import extra
from shop.sums import total

def test_waits():
    assert total([1, 2]) == 5 and extra.VALUE
    assert "SHOP_IS_BROKEN" not in os.environ
    while os.path.exists(os.environ["FIXTURE_STATE"] + "/wait"):
        time.sleep(0.02)
"""
#: Outcomes only: what is compared does not matter here, and the baseline is found out sooner.
WORDS = (
    *("check", "--keep-warm", "-j", "1", "--compare", "pass-fail", "--function", "shop/sums.py::total"),
    *("--pass-env", "FIXTURE_STATE", "--pass-env", "SHOP_*", "-q"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Give a user's place around the shop, for all tests; what they leave running is ended."""
    folder = tmp_path_factory.mktemp("warm")
    library = folder / "library"
    library.mkdir()
    (library / "extra.py").write_text("VALUE = 1\n")
    made = make_place(folder, PYTHONPATH=str(library))
    make_project(made.repository, tests__test_wait_py=TESTS)
    for name, code in (("fast", FAST_TOTAL), ("wrong", WRONG_TOTAL), ("broken", "def total(values:\n")):
        (made.state / f"{name}.py").write_text(code)
    yield made
    end_daemons(made.cache)


def words(place: Place, *more: str, candidate: str = "fast") -> tuple[str, ...]:
    return (*WORDS, "--candidates", str(place.state / f"{candidate}.py"), *more)


def check(place: Place, *more: str, candidate: str = "fast", **environment: str) -> Finished:
    return place.run(*words(place, *more, candidate=candidate), **environment)


def log(place: Place) -> str:
    return (warm_folder(place.cache) / "daemon.log").read_text()


def daemon_of(place: Place) -> int:
    lock = read_lock(warm_folder(place.cache))
    assert lock is not None
    return int(lock.pid)


def told(done: Finished, *but: str) -> dict[str, Any]:
    """Return a document without what differs between any two runs: ids, times, and what stood already."""
    text = json.dumps(done.document).replace(done.document["run_id"], "RUN")
    left_out = {"timings", "load", "warm", *but}
    return json.loads(
        text,
        object_hook=lambda found: {
            k: v for k, v in found.items() if k not in left_out and not k.endswith("_ms")
        },
    )


def test_repeated_commands_are_served_by_one_process(place: Place) -> None:
    cold = place.run(*(word for word in words(place, "--json", "--seed", "7") if word != "--keep-warm"))
    first, second = (check(place, "--json", "--seed", "7") for _ in range(2))
    assert [cold.status, first.status, second.status] == [0, 0, 0], str(first)
    served = ("served", "served_why")
    assert told(first) == told(second)
    assert told(cold, *served) == told(second, *served)
    assert second.document["warm"]["servers"] == 0  # none was started for it
    before = log(place)
    assert check(place, "--seed", "7", candidate="wrong").status == 1
    assert log(place) == before
    # Nothing of a client is left in the daemon.
    files = Path(f"/proc/{daemon_of(place)}/fd")
    assert {str((files / str(number)).readlink()) for number in range(3)} == {os.devnull}
    assert str((files.parent / "cwd").readlink()) == "/"


@pytest.fixture
def waiting(place: Place) -> Iterator[Place]:
    """Give a place whose daemon has the project open, and whose next check waits until `wait` is removed."""
    assert check(place).status == 0
    (place.state / "wait").touch()
    yield place
    (place.state / "wait").unlink(missing_ok=True)


def test_what_changes_is_seen(place: Place) -> None:
    assert check(place).status == 0
    (place.repository.parent / "library" / "extra.py").write_text("VALUE = 22\n")
    assert check(place).status == 0
    assert "a file of a package has changed" in log(place)
    before, source = log(place), place.repository / "shop" / "sums.py"
    text = source.read_text()
    source.write_text(text.replace("value * value", "value"))
    assert check(place).status == 4
    source.write_text(text)
    assert check(place).status == 0
    assert log(place) == before


@pytest.mark.witness
def test_a_changed_variable_is_seen(place: Place) -> None:
    assert check(place).status == 0
    assert check(place, SHOP_IS_BROKEN="1").status == 4
    assert "other values of SHOP_IS_BROKEN" in log(place)


def started(place: Place, *more: str) -> Started:
    began = place.start(*(word for word in words(place, *more) if word != "-q"))
    began.wait_until_it_says("slot 1")
    return began


@pytest.mark.parametrize(
    ("name", "status"), [("SIGINT", 130), pytest.param("SIGTERM", 143, marks=pytest.mark.witness)]
)
def test_signals_end_the_run_and_not_the_daemon(waiting: Place, name: str, status: int) -> None:
    daemon = daemon_of(waiting)
    command = started(waiting, "--json")
    command.send(signal.Signals[name])
    done = command.finish()
    assert (done.status, done.document["error"]["code"]) == (status, name)
    assert "Traceback" not in done.errors
    (waiting.state / "wait").unlink()
    assert check(waiting).status == 0
    assert daemon_of(waiting) == daemon


def test_two_signals_end_everything_at_once(waiting: Place) -> None:
    command = started(waiting)
    for _ in range(2):
        command.send(signal.SIGINT)
    done = command.finish()
    assert done.status == 130
    assert done.errors.count("Interrupted") <= 1


def test_a_client_that_is_killed_interrupts_its_run(waiting: Place) -> None:
    command = started(waiting)
    daemon = daemon_of(waiting)
    command.process.kill()
    command.finish()
    assert wait_for(lambda: b'"SIGTERM"' in waiting.run("show", "--json").stdout, 20.0)
    (waiting.state / "wait").unlink()
    assert check(waiting).status == 0
    assert daemon_of(waiting) == daemon


def test_a_killed_daemon_s_command_is_run_by_the_client(waiting: Place) -> None:
    command = started(waiting)
    os.kill(daemon_of(waiting), signal.SIGKILL)
    (waiting.state / "wait").unlink()
    done = command.finish()
    assert done.status == 0, done
    assert done.errors.count("it is run again, here") == 1
    assert "Traceback" not in done.errors


@pytest.mark.witness
def test_output_that_is_out_cannot_be_taken_back(waiting: Place) -> None:
    command = started(waiting, "--output-format", "jsonl")
    os.kill(daemon_of(waiting), signal.SIGKILL)
    done = command.finish()
    assert done.status == 4
    assert json.loads(done.stdout.splitlines()[-1])["error"]["code"] == "WARM_PROCESS_GONE"
    assert "Traceback" not in done.errors


def test_a_command_beside_runs_by_itself(waiting: Place) -> None:
    command, starts = started(waiting), log(waiting).count("starts")
    beside = check(waiting, candidate="broken")
    assert (beside.status, beside.errors) == (1, "")
    (waiting.state / "wait").unlink()
    assert command.finish().status == 0
    assert log(waiting).count("starts") == starts


@pytest.mark.witness
def test_another_start_has_another_daemon(place: Place) -> None:
    """Variables that an interpreter reads are in the stamp of a daemon, as our own files are."""
    assert check(place).status == 0
    before = daemon_of(place)
    assert check(place, PYTHONBREAKPOINT="0").status == 0
    assert daemon_of(place) != before
    assert wait_for(lambda: not Path(f"/proc/{before}").exists(), 10.0)


def test_streams_that_are_full_or_closed(place: Place) -> None:
    line = " ".join(place.command(*words(place)))
    for end, status, said in ((">/dev/full", 4, 1), ("| true", 0, 0), ("<&- >&- 2>&-", 0, 0)):
        shell = ["/bin/sh", "-c", f"{line} {end}"]
        done = subprocess.run(shell, cwd=place.cwd, env=place.environment, capture_output=True, check=False)
        assert done.returncode == status, done
        assert done.stderr.count(b"No space left") == len(done.stderr.splitlines()) == said, done


def test_candidates_of_standard_input_and_other_folders(place: Place) -> None:
    """Relative paths and standard input are the client's."""
    given = json.dumps({"id": "one", "replacement": FAST_TOTAL})
    line = [
        *place.command(*WORDS),
        "--project",
        "..",
        "--candidates",
        "-",
        "--junit-xml",
        "../../state/it.xml",
    ]
    at = place.repository / "shop"
    done = subprocess.run(
        line, cwd=at, env=place.environment, input=given.encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done
    assert (place.state / "it.xml").exists()


@pytest.mark.parametrize("cache", ["pyproject.toml/cache", "/proc/nowhere"])
def test_a_cache_that_cannot_be_is_told_once(place: Place, cache: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    done = check(place, "--cache-dir", str(tmp_path / cache))
    assert (done.status, done.errors.count("cannot be written")) == (4, 1), done
    assert "Traceback" not in done.errors


def test_no_home_and_no_repository(place: Place, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "codeflash_parallel", *words(place)]
    homeless = {"PATH": os.environ["PATH"], "HOME": "/proc/nowhere"}
    done = subprocess.run(line, cwd=place.cwd, env=homeless, capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"error: ")) == (4, 1), done
    line += ["--cache-dir", str(place.cache)]
    done = subprocess.run(line, cwd=tmp_path, env=place.environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"error: ")) == (2, 1), done


def test_garbage_on_the_socket_is_ignored(place: Place) -> None:
    assert check(place).status == 0
    before = daemon_of(place)
    guessed = b'{"token": "guessed", "do": "run"}\n'
    for garbage in (b"", b"\n", b"{}\n", b"\xff" * 9000, guessed, b"[" * 4000 + b"\n"):
        with socket.socket(socket.AF_UNIX) as connection, short_address(_socket(place)) as address:
            connection.connect(address)
            connection.settimeout(10)
            with suppress(ConnectionError):
                connection.sendall(garbage)
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1) == b""
    assert check(place).status == 0
    assert daemon_of(place) == before


def _socket(place: Place) -> Path:
    return warm_folder(place.cache) / "daemon.socket"


#: Looks for the daemon from inside a candidate, and notes what it can.
ATTACK = """
def total(values):
    import json, os, socket
    folder = {folder!r}
    found = []
    try:
        with open(folder + "/daemon.lock") as lock:
            found.append("read " + lock.read())
    except OSError:
        pass
    for token in ("", "guessed"):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                connection.connect(folder + "/daemon.socket")
                connection.sendall(json.dumps({{"token": token, "do": "run"}}).encode() + b"\\n")
                if connection.recv(100):
                    found.append("answered")
        except OSError:
            pass
    assert not found, found
    return sum(value * value for value in values)
"""


@pytest.mark.parametrize(
    ("level", "status"),
    [
        pytest.param("none", "rejected", marks=pytest.mark.attack),  # the attack is one
        ("landlock", "undecided"),
        ("sandbox", "undecided"),
    ],
)
def test_a_candidate_cannot_have_the_daemon_run_anything(place: Place, level: str, status: str) -> None:
    assert check(place).status == 0
    (place.state / "attack.py").write_text(ATTACK.format(folder=str(warm_folder(place.cache))))
    done = check(place, "--json", "--isolation", level, candidate="attack")
    if b"NO_ISOLATION" in done.stdout:
        pytest.skip(f"{level} does not work here")
    (candidate,) = done.document["candidates"]
    assert candidate["status"] == status, done


def test_clean_ends_an_idle_daemon(place: Place) -> None:
    assert check(place).status == 0
    cleaned = place.run("clean")
    assert (cleaned.status, b"mirror" in cleaned.stdout) == (0, True)
    assert processes_of(place.cache) == []


@pytest.mark.witness
def test_the_library_keeps_an_evaluator_in_its_process(shop: Path) -> None:
    settings = Settings(
        functions=("shop/sums.py::total",),
        cache_dir=str(shop / "cache"),
        parallel_candidates=1,
        compare=ComparisonMode.PASS_FAIL,
        keep_warm=True,
    )
    try:
        for code, expected in ((FAST_TOTAL, "undecided"), (WRONG_TOTAL, "rejected")):
            candidate = Submission(id=CandidateId("one"), content=Replacement(code=code))
            result = evaluate([candidate], shop / "project", settings, race=RaceMode.CHECK)
            assert result.candidates[0].status == expected
        assert result.warm["servers"] == 0
    finally:
        library_thread(Evaluator, "asyncio").close()
        kept_evaluators._THREADS.clear()
    assert processes_of(shop / "cache") == []
