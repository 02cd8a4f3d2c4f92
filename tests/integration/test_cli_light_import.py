"""What must not be loaded by whoever only imports us or asks for help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from projects import FAST_TOTAL, make_project

from codeflash_parallel.cli.main import QUEUE_COMMANDS

HEAVY = (
    "git",
    "junitparser",
    "rich",
    "anyio",
    "pytest",
    "_pytest",
    "pygments",
    "asyncio",
    "trio",
    "xdist",
    "mcp",
)
REPORT = (
    "import atexit, json, sys\n"
    "atexit.register(lambda: sys.stderr.write(json.dumps(sorted(m.partition('.')[0] for m in sys.modules))))\n"
)


#: The same with whole names.
REPORT_ALL = REPORT.replace("m.partition('.')[0] for m", "m for m")


def loaded(code: str, report: str = REPORT, cwd: Path | None = None) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", report + code], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def command(*arguments: str) -> str:
    return f"from codeflash_parallel.cli.main import main\nsys.exit(main({list(arguments)!r}))"


CALLS = {
    "import": "import codeflash_parallel",
    "client of --keep-warm": "import codeflash_parallel.cli.main, codeflash_parallel.cli.warm_client",
    "help": command("--help"),
    "version": command("--version"),
    **{
        f"{name} --help": command(name, "--help")
        for name in (
            "run",
            "check",
            "apply",
            "show",
            "report",
            "list",
            "clean",
            "doctor",
            "serve",
            "score",
            "mcp",
        )
    },
    **{f"{name} --help": command(*name.split(), "--help") for name in ("queue", *QUEUE_COMMANDS)},
}


@pytest.mark.parametrize("code", CALLS.values(), ids=CALLS.keys())
def test_nothing_heavy_is_loaded(code: str) -> None:
    assert loaded(code) & set(HEAVY) == set()


def test_only_the_command_that_is_called_is_loaded() -> None:
    code = command("run", "--help").replace("sys.exit(", "code = ").removesuffix(")") + (
        "\nothers = [m for m in sys.modules if m.startswith('codeflash_parallel.cli.')]"
        "\nassert 'codeflash_parallel.cli.run' in others"
        "\nassert not {'codeflash_parallel.cli.' + n for n in ('doctor', 'doctor_race', 'serve')} & set(others)"
    )
    loaded(code)


def test_the_probe_sees_what_is_loaded() -> None:
    assert "rich" in loaded("import rich")


#: What a command of the queue that answers at once does without: each of these took milliseconds of its answer.
SPARED = {
    *("traceback", "importlib.resources"),
    *(
        "codeflash_parallel.result.result_model",
        "codeflash_parallel.result.outcome_codes",
        "codeflash_parallel.result.result_document",
    ),
}
#: Imported only where there may be a daemon.
OF_A_DAEMON = {
    "codeflash_parallel.queue.daemon_protocol",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_project(tmp_path_factory.mktemp("light") / "project")
    (made.parent / "fast.py").write_text(FAST_TOTAL)
    return made


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_who_hands_in_loads_what_that_needs(project: Path, form: tuple[str, ...]) -> None:
    given = ("--candidates", "../fast.py", "--function", "shop/sums.py::total", "--cache-dir", "../cache")
    submit = command("queue", "submit", *given, *form)
    names = loaded(submit, REPORT_ALL, project)
    assert {name.partition(".")[0] for name in names} & set(HEAVY) == set()
    assert names & (SPARED | OF_A_DAEMON) == set()
    assert "codeflash_parallel.queue.job_builder" in names


@pytest.mark.parametrize("words", [("queue", "list", "--json"), ("queue", "status", "--json")], ids=" ".join)
def test_who_looks_loads_what_that_needs(project: Path, words: tuple[str, ...]) -> None:
    loaded(command("queue", "pause", "--cache-dir", "../cache"), cwd=project)
    names = loaded(command(*words, "--cache-dir", "../cache"), REPORT_ALL, project)
    assert {name.partition(".")[0] for name in names} & set(HEAVY) == set()
    assert names & SPARED == set()


def test_the_client_of_a_background_process_loads_neither_evaluator_nor_parser() -> None:
    names = loaded(CALLS["client of --keep-warm"], REPORT_ALL)
    assert {"argparse", "subprocess", "hashlib", "codeflash_parallel.cli.run"} & names == set()
    assert not any(name.startswith("codeflash_parallel.run") for name in names)


def test_the_version_is_said_without_anything_made() -> None:
    assert {"dataclasses", "argparse", "traceback"} & loaded(command("--version")) == set()
