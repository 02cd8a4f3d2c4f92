from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import codeflash_parallel
from codeflash_parallel.repair.command_providers import (
    _STARTER,
    CommandFailure,
    CommandProvider,
    ProviderProcesses,
    command_provider,
)
from codeflash_parallel.repair.provider_protocol import (
    Answer,
    MalformedAnswer,
    RefinementKind,
    RefinementRequest,
    RepairRequest,
    load_callable,
)
from codeflash_parallel.result.candidate_model import CandidateId, PatchText, Replacement
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.result_model import LineProfile, LineTiming, Speedup

LONG_S = 60.0

REPAIR = RepairRequest(
    candidate=CandidateId("a"), targets=("m.py::f",), code="VALUE_DIFFERS", reason="why", diff="d", source=(("m.py", "x\n"),)
)  # fmt: skip
REFINEMENT = RefinementRequest(
    candidate=CandidateId("a"), kind=RefinementKind.ADAPTIVE, targets=("m.py::f",), diff="d", source=(),
    speedup=Speedup(estimate=2.0, low=1.5, high=2.5),
    profile=LineProfile(tracer="t", lines=(LineTiming(path="m.py", line=3, hits=1, time_ns=5, text="hot"),)),
)  # fmt: skip


def script(tmp_path: Path, body: str, name: str = "provider.py") -> str:
    path = tmp_path / name
    path.write_text(body)
    return f"{sys.executable} {path}"


def ask(command: str, deadline_s: float = LONG_S, **kwargs) -> tuple[Answer, ...]:
    return command_provider(command, "repair", deadline_s=deadline_s, **kwargs)(REPAIR)


def test_a_command_gets_the_request_and_gives_an_answer(tmp_path):
    command = script(
        tmp_path, "import json, sys\nr = json.load(sys.stdin)\nprint(json.dumps({'patch': json.dumps(r)}))"
    )
    (answer,) = ask(command)
    assert isinstance(answer.content, PatchText)
    seen = json.loads(answer.content.patch)
    assert (seen["protocol"], seen["kind"], seen["candidate"], seen["source"]) == (
        1,
        "repair",
        "a",
        {"m.py": "x\n"},
    )


def test_a_refine_command_gets_the_batch(tmp_path):
    command = script(
        tmp_path,
        "import json, sys\nr = json.load(sys.stdin)['requests'][0]\n"
        "print(json.dumps([{'replacement': r['profile']['lines'][0]['text'], 'parent': 'a', 'explanation': r['kind']}]))",
    )
    refine = command_provider(command, "refine", deadline_s=LONG_S)
    assert refine([REFINEMENT]) == (
        Answer(content=Replacement(code="hot"), parent="a", explanation="adaptive"),
    )


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("import sys; sys.exit('no key')", "exit status 1: no key"),
        ("import os; os.kill(os.getpid(), 9)", "exit status -9: it said nothing on stderr"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "not UTF-8"),
        ("print('Sure! Here is your patch:')", "not JSON"),
        ("print('{}')", "exactly one of"),
    ],
)
def test_failures_say_why(tmp_path, body, error):
    with pytest.raises((CommandFailure, MalformedAnswer), match=error):
        ask(script(tmp_path, body))


def test_a_command_may_ignore_its_input_and_have_no_idea(tmp_path):
    assert ask("true") == ()
    assert ask(script(tmp_path, "print('null')")) == ()


@pytest.fixture
def alive(tmp_path):
    """A shell redirection whose holders, all of them, are waited for by `gone`."""
    path = tmp_path / "alive"
    os.mkfifo(path)
    # opened for reading first: neither end may block in open
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    yield f"exec 3>{path}", reader
    os.close(reader)


def gone(reader):
    """Wait until nobody holds the write end."""
    ready, _, _ = select.select([reader], [], [], LONG_S)
    return bool(ready) and os.read(reader, 1) == b""


def test_a_hanging_command_and_what_it_started_are_killed_at_the_deadline(alive):
    hold, reader = alive
    with pytest.raises(CommandFailure, match=r"within 1 s"):
        CommandProvider(argv=("/bin/sh", "-c", f"{hold}; sleep 600 & wait"), deadline_s=1.0)(REPAIR)
    assert gone(reader)


def test_what_a_finished_command_left_running_is_killed_and_waited_for_by_nobody(alive):
    hold, reader = alive
    command = f"{hold}; sleep 600 & echo null"
    assert CommandProvider(argv=("/bin/sh", "-c", command), deadline_s=600)(REPAIR) == ()
    assert gone(reader)


def test_closing_kills_what_runs_and_starts_nothing_more(tmp_path):
    started = tmp_path / "started"
    os.mkfifo(started)
    children = ProviderProcesses()
    errors: list[BaseException] = []

    def work():
        try:
            children.ask(["/bin/sh", "-c", f"echo > {started}; sleep 600"], b"", deadline_s=LONG_S)
        except CommandFailure as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    started.read_text()
    children.close()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert "exit status -9" in str(errors[0])
    with pytest.raises(CommandFailure, match="over"):
        children.ask(["true"], b"", deadline_s=LONG_S)


def test_a_command_dies_with_the_process_that_asked(tmp_path, alive):
    hold, reader = alive
    started = tmp_path / "started"
    os.mkfifo(started)
    program = (
        "from codeflash_parallel.repair.command_providers import ProviderProcesses\n"
        f"ProviderProcesses().ask(['/bin/sh', '-c', '{hold}; echo > {started}; exec sleep 600'], b'', deadline_s=600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(codeflash_parallel.__file__).parents[1])}
    asker = subprocess.Popen([sys.executable, "-c", program], env=environment)
    started.read_text()
    asker.send_signal(signal.SIGKILL)
    asker.wait(LONG_S)
    assert gone(reader)


def test_an_answer_may_be_long_and_what_goes_to_stderr_too(tmp_path):
    body = "import sys\nsys.stderr.write('x' * 1_000_000)\nprint('{\"patch\": \"' + 'y' * 1_000_000 + '\"}')"
    (answer,) = ask(script(tmp_path, body))
    assert isinstance(answer.content, PatchText)
    assert len(answer.content.patch) == 1_000_000


PYTHON_PROVIDER = """
import os
import sibling
from codeflash_parallel import Answer, Replacement
print("imported")
def fix(request):
    print("noise on stdout")
    os.write(1, b"more noise")
    return Answer(content=Replacement(code=f"{sibling.NAME} {request.candidate} {dict(request.source)}"))
def faster(requests):
    return [Answer(content=Replacement(code=r.profile.lines[0].text), parent=r.candidate) for r in requests]
def wrong(request): return "text"
def broken(request): raise KeyError("my key")
number = 3
"""


@pytest.fixture
def provider(tmp_path):
    (tmp_path / "provider.py").write_text(PYTHON_PROVIDER)
    (tmp_path / "sibling.py").write_text("NAME = 'sib'")
    return tmp_path


def test_a_python_provider_is_called_in_a_process_of_its_own(provider):
    (answer,) = ask("provider.py:fix", cwd=str(provider))
    assert answer == Answer(content=Replacement(code="sib a {'m.py': 'x\\n'}"), parent="a")
    assert ask("provider:fix", cwd=str(provider)) == (answer,)
    assert ask(f"{provider}/provider.py:fix") == (answer,)
    refine = command_provider("provider.py:faster", "refine", deadline_s=LONG_S, cwd=str(provider))
    assert [a.content for a in refine([REFINEMENT, REFINEMENT])] == [Replacement(code="hot")] * 2


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("wrong", "expected an Answer"),
        ("broken", "my key"),
        ("absent", "absent"),
        ("number", "not callable"),
    ],
)
def test_a_python_provider_that_misbehaves_says_why(provider, name, error):
    with pytest.raises(CommandFailure, match=error):
        ask(f"provider.py:{name}", cwd=str(provider))


@pytest.mark.parametrize("command", ["", "no-such-program --flag", "'unclosed", "./absent.sh"])
def test_a_command_that_cannot_be_run_is_a_usage_error(command):
    with pytest.raises(UsageError) as caught:
        command_provider(command, "repair", deadline_s=1)
    assert caught.value.code == "BAD_COMMAND"


def test_a_program_that_vanishes_later_is_a_failed_request(tmp_path):
    path = tmp_path / "tool"
    path.write_text("#!/bin/sh\necho null\n")
    path.chmod(0o755)
    repairer = command_provider(str(path), "repair", deadline_s=LONG_S)
    assert repairer(REPAIR) == ()
    path.unlink()
    with pytest.raises(CommandFailure, match="No such file"):
        repairer(REPAIR)


def test_callables_are_loaded_by_module_and_by_path(tmp_path, monkeypatch):
    (tmp_path / "some_provider_file.py").write_text("def f(): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_callable("json:dumps") is json.dumps
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_callable(f"{tmp_path}/some_provider_file.py:f")() == 1
    sys.modules.pop("some_provider_file", None)
    for spec in ("no_such_module:f", "json:nothing", f"{tmp_path}/absent.py:f", "json:__name__"):
        with pytest.raises(UsageError) as caught:
            load_callable(spec)
        assert caught.value.code == "BAD_PROVIDER"


def started(*command: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-c", _STARTER, str(os.getpid() if parent is None else parent), *command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_takes_the_starters_place() -> None:
    ended = started(sys.executable, "-c", "print('ready'); raise SystemExit(7)")
    assert (ended.returncode, ended.stdout) == (7, "ready\n")


def test_a_command_that_is_not_there_is_named() -> None:
    ended = started("/nowhere/command")
    assert ended.returncode == 1
    assert ended.stderr == "/nowhere/command: No such file or directory\n"


def test_nothing_is_run_for_a_parent_that_died_meanwhile() -> None:
    ended = started(sys.executable, "-c", "print('ready')", parent=1)
    assert (ended.returncode, ended.stdout) == (127, "")
