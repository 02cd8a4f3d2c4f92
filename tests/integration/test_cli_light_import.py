"""What must not be loaded by whoever only imports us or asks for help."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from codeflash_parallel.cli.main import QUEUE_COMMANDS

HEAVY = ("git", "junitparser", "rich", "anyio", "pytest", "_pytest", "pygments", "asyncio", "trio", "xdist")
REPORT = (
    "import atexit, json, sys\n"
    "atexit.register(lambda: sys.stderr.write(json.dumps(sorted(m.partition('.')[0] for m in sys.modules))))\n"
)


def loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", REPORT + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


def command(*arguments: str) -> str:
    return f"from codeflash_parallel.cli.main import main\nsys.exit(main({list(arguments)!r}))"


CALLS = {
    "import": "import codeflash_parallel",
    "help": command("--help"),
    "version": command("--version"),
    **{
        f"{name} --help": command(name, "--help")
        for name in ("run", "check", "apply", "show", "replay", "list", "clean", "doctor", "serve")
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
        "\nassert not {'codeflash_parallel.cli.' + n for n in ('apply', 'show', 'doctor', 'clean')} & set(others)"
    )
    loaded(code)


def test_the_probe_sees_what_is_loaded() -> None:
    assert "rich" in loaded("import rich")
