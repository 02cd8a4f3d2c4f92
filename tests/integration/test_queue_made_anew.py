"""A queue that was damaged and made anew: nobody shall take it for an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_lab import SetClock, open_lab

from codeflash_parallel.evalqueue import journal, rebuilt
from codeflash_parallel.evalqueue.database import NAME
from codeflash_parallel.evalqueue.figures import prometheus
from codeflash_parallel.evalqueue.store import Check, Store
from codeflash_parallel.model.queue_settings import QueueSettings


def opened(folder: Path, said: list[str]) -> str:
    """Open a queue, and return what its figures say about a rebuild, in words and as a metric alike."""
    with Store.open(folder, QueueSettings(), on_rebuilt=said.append) as store:
        health = store.health(SetClock()())
    assert f"codeflash_parallel_queue_rebuilt {bool(health.rebuilt):d}" in prometheus(health).splitlines()
    return health.rebuilt


def test_it_says_so_until_the_note_is_removed(tmp_path: Path) -> None:
    path, said = tmp_path / NAME, list[str]()
    with open_lab(tmp_path) as lab:
        lab.submit(), lab.submit()
    assert (opened(tmp_path, said), said) == ("", [])

    path.write_bytes(b"no database" * 1000)
    (told,) = {opened(tmp_path, said), opened(tmp_path, said)}
    assert said == [told]  # once by who did it, then with the figures
    assert f"{path}.damaged-1" in told
    assert "not a database" in told
    assert "came back from the journal: 2" in told

    (tmp_path / rebuilt.NAME).unlink()
    assert (opened(tmp_path, said), len(said)) == ("", 1)


def test_it_says_which_page_was_damaged(tmp_path: Path) -> None:
    with open_lab(tmp_path) as lab:
        lab.submit()
    with (tmp_path / NAME).open("r+b") as file:
        file.seek(4 * 4096)
        file.write(b"\xff" * 16)
    said = list[str]()
    with Store.open(tmp_path, QueueSettings(), Check.FULL, on_rebuilt=said.append):
        assert "page 5: " in said[0].lower()


def test_it_says_what_is_lost_with_the_journal(tmp_path: Path) -> None:
    path, book, said = tmp_path / NAME, tmp_path / journal.NAME, list[str]()
    with open_lab(tmp_path) as lab:
        lab.submit(), lab.submit()
    book.write_bytes(book.read_bytes()[:-9])
    path.unlink()
    assert "could not be read: 1;" in opened(tmp_path, said)
    assert "came back from the journal: 1;" in said[0]
    assert "damaged file" not in said[0]

    path.write_bytes(b"no database" * 1000)
    book.unlink()
    assert "no journal" in opened(tmp_path, said)
    assert "has all 2" in said[1]

    (tmp_path / rebuilt.NAME).write_bytes(b'{"half')
    assert "made anew" in opened(tmp_path, said)


def test_a_rebuild_that_was_broken_off_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, said = tmp_path / NAME, list[str]()
    with open_lab(tmp_path) as lab:
        lab.submit(), lab.submit()
    path.write_bytes(b"no database" * 1000)

    def fail(_folder: Path, _note: rebuilt.Rebuilt) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("codeflash_parallel.evalqueue.rebuilding.leave_note", fail)
        with pytest.raises(KeyboardInterrupt):
            opened(tmp_path, said)
    assert path.exists()  # and nothing is in it
    assert "came back from the journal: 2" in opened(tmp_path, said)
