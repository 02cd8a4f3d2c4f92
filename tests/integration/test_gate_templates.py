"""Files for CI: they are what their schemas ask for, and the action's script says what the document says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from harness import ROOT, make_place
from projects import write_repository

PAGE = ROOT / "docs" / "how-to" / "gate.md"
ACTION = ROOT / "action.yml"
SHOWN = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
SCHEMAS = {".github": "vendor.github-workflows", ".gitlab-ci.yml": "vendor.gitlab-ci"}


def assert_fits(schema: str, *files: Path) -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_action_and_template_fit_their_schemas() -> None:
    assert_fits("vendor.github-actions", ACTION)
    assert_fits("vendor.gitlab-ci", ROOT / ".ci" / "gate.gitlab-ci.yml")


def test_workflows_of_the_page_fit_their_schemas(tmp_path: Path) -> None:
    assert len(SHOWN) == 4
    for number, (name, text) in enumerate(SHOWN):
        path = tmp_path / f"{number}.yml"
        path.write_text(text)
        assert_fits(SCHEMAS[name.partition("/")[0]], path)


def test_the_action_names_options_that_there_are_and_hands_inputs_over_as_variables() -> None:
    text = ACTION.read_text("utf-8")
    known = subprocess.run(
        [sys.executable, "-m", "codeflash_parallel", "gate", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    used = set(re.findall(r"(?<![\w-])--[a-z-]+", text.partition("runs:")[2]))
    assert used - set(re.findall(r"--[a-z-]+", known)) <= {"--quiet"}
    for _, script in scripts():
        assert "${{" not in script


def scripts() -> list[tuple[str, str]]:
    """Return the scripts of the action, with the first line that they have in the file."""
    parts = re.findall(
        r"^      run: \|\n((?:^        .*\n|^\n)+)", ACTION.read_text("utf-8"), flags=re.MULTILINE
    )
    assert len(parts) == 2
    return [(part.splitlines()[0].strip(), dedent(part)) for part in parts]


BENCHMARK = {"name": "t.py::test_a[x,y]", "verdict": "slower", "estimate": 0.8, "file": "b,c/t.py", "line": 7}


@pytest.mark.parametrize(
    ("document", "status", "outputs", "said"),
    [
        (
            {
                "verdict": "slower",
                "why": "So.",
                "estimate": 0.8,
                "low": 0.7,
                "high": None,
                "benchmarks": [BENCHMARK],
            },
            1,
            {"verdict": "slower", "estimate": "0.8", "low": "0.7", "high": ""},
            "::error file=b%2Cc/t.py,line=7::t.py::test_a[x,y] is slower: +25.0 %25 time",
        ),
        (
            {"verdict": "too_noisy", "why": "100 %\nnoise", "benchmarks": []},
            4,
            {"verdict": "too_noisy", "estimate": "", "low": "", "high": ""},
            "::warning::100 %25%0Anoise",
        ),
        (
            {"verdict": None, "error": {"message": "No base."}},
            2,
            {"verdict": "error", "estimate": "", "low": "", "high": ""},
            "::error::No base.",
        ),
        (
            {"verdict": "faster", "estimate": 1.1, "low": 1.0, "high": 1.2, "benchmarks": []},
            0,
            {"verdict": "faster", "estimate": "1.1", "low": "1.0", "high": "1.2"},
            "",
        ),
    ],
)
def test_the_action_says_what_the_document_says(
    tmp_path: Path, document: dict[str, object], status: int, outputs: dict[str, str], said: str
) -> None:
    bin_ = tmp_path / "codeflash-parallel" / "bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").symlink_to(sys.executable)
    # Stands for the command: writes the document and the summary, and keeps its arguments.
    fake = f"""#!{sys.executable}
import json, sys
from pathlib import Path
Path({str(tmp_path / "arguments")!r}).write_text(json.dumps(sys.argv[1:]))
Path(sys.argv[sys.argv.index("--output") + 1]).write_text({json.dumps(document)!r})
Path(sys.argv[sys.argv.index("--markdown") + 1]).write_text("summary")
sys.exit({status})
"""
    (bin_ / "codeflash-parallel").write_text(fake)
    (bin_ / "codeflash-parallel").chmod(0o755)
    inputs = {
        "BASE": "",
        "HEAD": "HEAD",
        "BENCHMARK": "a.py::b\nc d.py::e\n",
        "BENCHMARK_COMMAND": "",
        "TESTS": "",
        "PREPARE": "make it; now",
        "BUDGET": "60",
        "MAX_REGRESSION": "0.02",
        "ALLOW_NOISE": "true",
        "PROJECT_PYTHON": "python",
        "PROJECT": ".",
        "GITHUB_BASE_REF": "dev",
    }
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environment = {"PATH": os.environ["PATH"], "RUNNER_TEMP": str(tmp_path), **inputs, **files}
    (_, script) = scripts()[1]
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (status, said, "")
    told = dict(line.split("=", 1) for line in Path(files["GITHUB_OUTPUT"]).read_text().splitlines())
    assert told == {**outputs, "report": f"{tmp_path}/gate.md"}
    assert Path(files["GITHUB_STEP_SUMMARY"]).read_text() == "summary"
    arguments = json.loads((tmp_path / "arguments").read_text())
    assert arguments[:6] == ["gate", "--project", ".", "--base", "origin/dev", "--head"]
    for one in ("--benchmark=a.py::b", "--benchmark=c d.py::e", "--prepare=make it; now", "--allow-noise"):
        assert one in arguments


@pytest.mark.slow
@pytest.mark.engine
def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    bench = "def run():\n    return sum(i & 3 for i in range(3000))\n"
    write_repository(place.repository, {"bench_sums.py": bench})
    (command,) = re.findall(
        r"^```sh\ncodeflash-parallel (.*)\n```$", PAGE.read_text("utf-8"), flags=re.MULTILINE
    )
    done = place.run(*command.split(), "--python", sys.executable, "--budget", "150")
    assert done.status == 0, str(done)
    assert done.stdout.startswith(b"not slower: No benchmark is more than 20 % slower.")
