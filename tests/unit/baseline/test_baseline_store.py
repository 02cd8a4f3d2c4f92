"""What is kept of a baseline is believed only if all of it is what was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from codeflash_parallel.baseline.baseline_store import load, read_bytecode, save, write_bytecode
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.workspace.tree_guard import OriginalFile


def baseline(inputs: str) -> Baseline:
    return Baseline(
        targets=("m.py::f",),
        python="3.11",
        pytest="8",
        plugins=("xdist",),
        rootdir="/r",
        inifile="",
        selected=("t",),
        expected={"t": "passed"},
        executing=("t",),
        durations_ns={"t": 5},
        costs_ns={10: 1, 9: 2},
        cpu_ns=3,
        replay_cpu_ns=7,
        inputs=inputs,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inputs").write_bytes(b"pickled")
    save(tmp_path, baseline(str(tmp_path / "inputs")))
    return tmp_path


def test_it_comes_back(folder: Path) -> None:
    found = load(folder)
    assert found is not None
    assert found.longest_cpu_ns == 7, "a replay that takes longer than the tests has its time"
    assert (found.durations_ns, found.costs_ns) == ({"t": 5}, {10: 1, 9: 2})
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def change(key: str, value: object) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps({**json.loads(data), key: value}).encode()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: b"[" * 100_000,
        lambda data: b"\xff\xfe",
        lambda data: b"[]",
        lambda data: data.replace(b"passed", b"failed"),
        change("schema", 99),
        change("digest", "0"),
        change("baseline", None),
    ],
)
def test_a_damaged_one_is_none(folder: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = folder / "baseline.json"
    path.write_bytes(spoil(path.read_bytes()))
    assert load(folder) is None


@pytest.mark.parametrize("what", ["changed", "gone"])
def test_inputs_that_are_not_its_own_make_it_none(folder: Path, what: str) -> None:
    if what == "gone":
        (folder / "inputs").unlink()
    else:
        (folder / "inputs").write_bytes(b"pickles")
    assert load(folder) is None


def test_bytecode_comes_back_with_its_modes_and_is_part_of_what_is_believed(folder: Path) -> None:
    made = {
        "pkg/__pycache__/a.cpython-311.pyc": OriginalFile(data=b"\xcb\r\r\n" + bytes(99), mode=0o100644),
        "pkg/__pycache__/ä b.cpython-311.pyc": OriginalFile(data=b"", mode=0o100600),
        f"caf\udce9/{'long' * 60}/__pycache__/c.cpython-311.pyc": OriginalFile(data=b"c", mode=0o100755),
    }
    assert read_bytecode(folder) == {}
    write_bytecode(folder, made)
    assert load(folder) is None, "it came after what was sealed"
    save(folder, baseline(str(folder / "inputs")))
    assert load(folder) is not None
    assert read_bytecode(folder) == made
    data = (folder / "bytecode.tar").read_bytes()
    (folder / "bytecode.tar").write_bytes(data.replace(b"\xcb\r\r\n", b"\xcb\r\r\r"))
    assert load(folder) is None
    (folder / "bytecode.tar").write_bytes(b"no archive")
    assert read_bytecode(folder) == {}
