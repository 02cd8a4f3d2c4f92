"""The file of captured calls: read back as written, also when its writer was killed in the middle."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from codeflash_parallel._runner.values import call_files


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with (tmp_path / "inputs").open("wb") as file:
        for number in range(4):
            call_files.write_call(file, {"i": number, "target": 0}, pickle.dumps(((number,), {})))
        call_files.write_modules(file, str(Path(__file__).parent))
    return tmp_path / "inputs"


def test_calls_come_back(path: Path) -> None:
    calls = call_files.read_calls(str(path))
    assert [call.meta["i"] for call in calls] == [0, 1, 2, 3]
    assert call_files.load(calls[2]) == ((2,), {})
    assert [call.meta["i"] for call in call_files.read_calls(str(path), only=[3, 1])] == [1, 3]


def test_places_of_modules_come_back(path: Path) -> None:
    assert call_files.read_modules(str(path))[__name__] == Path(__file__).name


def test_a_truncated_file_gives_what_is_whole(path: Path) -> None:
    whole = path.read_bytes()
    counts = set()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        counts.add(len(call_files.read_calls(str(path))))
    assert counts == {0, 1, 2, 3, 4}
