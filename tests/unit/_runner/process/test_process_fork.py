"""Double forks, descriptors of a fork, and random states."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from codeflash_parallel._runner.process import process_fork
from codeflash_parallel._runner.process.process_fork import RandomState


def test_a_check_is_forked_twice() -> None:
    reading, writing = os.pipe()
    pid = process_fork.fork_twice()
    if pid == 0:
        os.write(writing, b"%d" % os.getpid())
        os._exit(0)
    os.close(writing)
    assert int(os.read(reading, 32)) == pid
    os.close(reading)


def test_descriptors_that_share_an_offset_are_one_description() -> None:
    with tempfile.TemporaryFile() as file, Path(os.devnull).open() as null:
        copy = os.dup(file.fileno())
        with Path(f"/proc/self/fd/{file.fileno()}").open("rb") as other:
            groups = [sorted(map(sorted, found)) for found in process_fork.regular_files()]
            assert [[file.fileno(), copy], [other.fileno()]] in groups
            assert not any([null.fileno()] in found for found in groups)
        os.close(copy)


def test_a_fork_s_files_have_content_and_offsets_of_their_own() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"template")
        file.flush()
        ours = os.dup(file.fileno())
        inherited = os.open(f"/proc/self/fd/{ours}", os.O_RDWR)
        process_fork.separate([[[ours]]])
        os.write(ours, b" and fork")
        assert os.pread(ours, 100, 0) == b"template and fork"
        assert os.pread(inherited, 100, 0) == b"template"
        for number in (ours, inherited):
            os.close(number)


def test_files_of_a_tree_are_opened_again_where_another_tree_lies(tmp_path: Path) -> None:
    tree, other = tmp_path / "tree", tmp_path / "other"
    for folder in (tree, other):
        folder.mkdir()
        (folder / "log").write_text(f"{folder.name}\n")
    (tree / "gone").write_text("gone")
    with (tree / "log").open("a") as log, (tree / "gone").open() as gone, (other / "log").open() as beside:
        files = [[[one.fileno()]] for one in (log, gone, beside)]
        places = process_fork.places_below(str(tree), files)
        assert places == {log.fileno(): f"{tree}/log", gone.fileno(): f"{tree}/gone"}
        tree.rename(tmp_path / "before")
        other.rename(tree)
        process_fork.open_again(files, places)
        log.write("written")
        assert gone.read() == "gone"
    assert (tree / "log").read_text() == "other\nwritten"
    assert (tmp_path / "before" / "log").read_text() == "tree\n"


def test_new_pipes_take_the_place_of_old_ones_and_their_copies() -> None:
    (old_reading, old), (reading, new) = os.pipe(), os.pipe()
    copy = os.dup(old)
    process_fork.connect([(old, process_fork.identity(old), new)])
    for number in (old, copy):
        os.write(number, b"x")
    assert os.read(reading, 10) == b"xx"
    for number in (old_reading, old, reading, copy):
        os.close(number)


def test_only_a_state_that_was_set_is_kept() -> None:
    kept = random.getstate()
    try:
        states = RandomState()
        states.hold()
        random.seed(1)
        states.renew()
        assert random.getstate() == random.Random(1).getstate()
        states.hold()
        random.seed(2)
        states.renew()
        assert random.getstate() == random.Random(1).getstate()
    finally:
        random.setstate(kept)
