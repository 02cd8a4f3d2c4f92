from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codeflash_parallel.cli.doctor import _versions
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.main import main
from codeflash_parallel.hosts.cluster import cluster_probe
from codeflash_parallel.hosts.cluster.cluster_probe import HostAnswer
from codeflash_parallel.result.errors import EnvironmentFault

HERE = Path(sys.executable)


def script(folder: Path, text: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_tells_its_versions_or_fails(tmp_path: Path) -> None:
    assert _versions(HERE)["pytest"]
    assert _versions(script(tmp_path, "exit 3")) == {}
    assert _versions(tmp_path / "absent") == {}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "words"), [("1", "1 slot"), ("900", "900 slots, more than the")])
def test_doctor_says_how_many_checks_run_at_once(capsys, monkeypatch, asked: str, words: str) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    main(["doctor", "--python", sys.executable, "-j", asked])
    line = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("parallel candidates")
    )
    assert words in line


def test_doctor_says_what_slots_would_be(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    main(["doctor", "--python", sys.executable, "--cache-dir", str(tmp_path / "cache")])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("slots"))
    assert line.split()[1].rstrip(";") in {"worktree", "reflink"}
    assert list(tmp_path.iterdir()) == []


def test_doctor_tells_a_cache_that_cannot_be(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "file").touch()
    code = main(["doctor", "--python", sys.executable, "--cache-dir", str(tmp_path / "file" / "cache")])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("cache  "))
    assert f"{tmp_path / 'file'} cannot be written (Not a directory); name another with --cache-dir." in line
    assert code == ExitCode.UNFIT


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    subprocess.run(["git", "init", "--quiet", str(root)], check=True, env=environment)
    monkeypatch.chdir(root)
    monkeypatch.setenv("CODEFLASH_PARALLEL_CACHE_DIR", str(tmp_path / "cache"))
    return root


@pytest.mark.slow
def test_doctor_names_where_settings_come_from(repository: Path, tmp_path: Path, capsys) -> None:
    (repository / "pyproject.toml").write_text("[tool.codeflash-parallel]\nseed = 5\n")
    arguments = ["doctor", "--python", sys.executable, "--output-format", "json"]
    assert main(arguments) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["fit"]
    assert data["settings"]["seed"] == {"value": 5, "source": str(repository / "pyproject.toml")}
    assert data["settings"]["python"]["source"].startswith("command line")
    assert data["settings"]["cache_dir"]["source"] == "environment, CODEFLASH_PARALLEL_CACHE_DIR"
    assert main(arguments[:3]) == 0
    assert "pytest" in capsys.readouterr().out


@pytest.mark.slow
def test_doctor_finds_what_is_missing(repository: Path, tmp_path: Path, capsys) -> None:
    bare = tmp_path / "bare" / "bin"
    bare.mkdir(parents=True)
    (bare / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    (bare / "python").chmod(0o755)
    assert main(["doctor", "--python", str(bare / "python")]) == 4
    assert "Install pytest" in " ".join(capsys.readouterr().out.split())


def test_doctor_says_of_each_host_whether_it_could(
    repository: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [HostAnswer("node7", "CPython 3.11", ""), HostAnswer("node8", "", "It has no room.")]
    monkeypatch.setattr(cluster_probe, "ask_hosts", lambda _settings, _interpreter: iter(answers))
    arguments = ["doctor", "--python", sys.executable, "--executor", "ray", "--output-format", "json"]
    assert main(arguments) == 4
    findings = {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert (findings["host node7"]["value"], findings["host node7"]["problem"]) == ("CPython 3.11", "")
    assert findings["host node8"]["problem"] == "It has no room."


def test_doctor_tells_an_engine_that_cannot_be_used(
    repository: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_settings: object, _interpreter: Path) -> None:
        raise EnvironmentFault("NO_CLUSTER", "There is no Ray cluster.")

    monkeypatch.setattr(cluster_probe, "ask_hosts", refuse)
    arguments = ["doctor", "--python", sys.executable, "--executor", "ray", "--output-format", "json"]
    assert main(arguments) == 4
    findings = {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert "There is no Ray cluster." in findings["executor ray"]["problem"]
