"""Files of the queue that another version has written, or that are damaged."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from queue_lab import SetClock, lived_in, open_lab

from codeflash_parallel.queue.queue_errors import OtherQueueVersion, QueueDamaged
from codeflash_parallel.queue.store.database import NAME, SCHEMA_VERSION, DatabaseFileCheck, connect


def spoil(path: Path) -> None:
    """Write over the pages behind the first one."""
    with path.open("r+b") as file:
        size = path.stat().st_size
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_file_of_another_version_is_refused_and_left_as_it_is(tmp_path: Path, version: int):
    with open_lab(tmp_path) as lab:
        lab.submit()
    connection = connect(tmp_path / NAME)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(OtherQueueVersion) as refused:
        open_lab(tmp_path).__enter__()
    assert refused.value.version == version
    assert (tmp_path / NAME).read_bytes() == before


@pytest.mark.parametrize("damage", ["pages", "head", "other"])
def test_a_damaged_file_is_told_and_left_as_it_is(tmp_path: Path, damage: str):
    now = SetClock()
    with open_lab(tmp_path, now, max_attempts=1) as lab:
        lived_in(lab)
    path = tmp_path / NAME
    if damage == "pages":
        spoil(path)
    elif damage == "head":
        path.write_bytes(b"no database" * 1000)
    else:
        path.unlink()
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE other (x)")
        other.close()
    before = path.read_bytes()

    for _ in range(2):
        with pytest.raises(QueueDamaged, match="move the file away") as told:
            open_lab(tmp_path, now).__enter__()
        assert str(path) in told.value.message
    assert damage == "other" or path.read_bytes() == before
    path.rename(tmp_path / "aside")
    with open_lab(tmp_path, now) as lab:
        assert lab.store.jobs() == ()


def test_the_page_that_is_damaged_is_named(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit()
    with (tmp_path / NAME).open("r+b") as file:
        file.seek(4 * 4096)
        file.write(b"\xff" * 16)
    with pytest.raises(QueueDamaged, match=r"(?i)page 5"):
        open_lab(tmp_path).__enter__()


def test_damage_that_is_met_later_is_told(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        for _ in range(50):
            lab.submit(payload="x" * 5000)
    with open_lab(tmp_path, now, check=DatabaseFileCheck.HEADER) as lab:
        spoil(tmp_path / NAME)
        with pytest.raises(QueueDamaged):
            lab.store.jobs()
