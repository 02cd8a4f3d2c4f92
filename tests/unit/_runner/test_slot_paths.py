"""Paths of the user's checkout, of the slot, and of the environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath

import pytest
from digests import encode

from codeflash_parallel._runner import slot_paths
from codeflash_parallel._runner.slot_paths import PathLocations, both_forms, environment, under
from codeflash_parallel._runner.values import argument_pickler
from codeflash_parallel._runner.values.value_digests import Walk


@pytest.fixture
def places(tmp_path: Path) -> PathLocations:
    for name in ("user/pkg", "slot/pkg", "private", "runner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "user")
    keys = {"root": "slot", "user_root": "user", "runner": "runner", "private": "private"}
    return PathLocations({key: str(tmp_path / name) for key, name in keys.items()})


def test_paths_of_the_checkout_are_mapped_to_the_slot(places: PathLocations, tmp_path: Path) -> None:
    slot = str(tmp_path / "slot")
    assert places.mapped(str(tmp_path / "user/pkg/a.py")) == f"{slot}/pkg/a.py"
    assert places.mapped(str(tmp_path / "link/pkg/a.py")) == f"{slot}/pkg/a.py"
    assert places.mapped(str(tmp_path / "user")) == slot
    for other in (f"{slot}/pkg/a.py", "relative/a.py", None, str(tmp_path / "user2/a.py")):
        assert places.mapped(other) is None


def test_packages_beside_the_sources_are_another_environment(places: PathLocations, tmp_path: Path) -> None:
    assert places.mapped(str(tmp_path / "user/.venv/lib/site-packages/a.py")) is None


def test_paths_of_the_slot(places: PathLocations, tmp_path: Path) -> None:
    path = str(tmp_path / "slot/pkg/a.py")
    assert places.relative(path) == "pkg/a.py"
    assert places.users(path) == str(tmp_path / "user/pkg/a.py")
    assert places.in_tree(path)
    assert places.relative(str(tmp_path / "slot")) is None
    assert not places.in_tree(str(tmp_path / "user/pkg/a.py"))


def test_a_prefix_around_the_checkout_is_not_the_environment(tmp_path: Path) -> None:
    assert any(under(sys.prefix, folder) for folder in environment([str(tmp_path)]))
    assert sys.prefix not in environment([str(Path(sys.prefix) / "src/project")])


def test_both_forms_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert both_forms(str(tmp_path / "link")) == [str(tmp_path / "link"), str(tmp_path / "real")]
    assert both_forms(str(tmp_path / "real")) == [str(tmp_path / "real")]


ROOM = 1 << 20


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_PLACES", "_PARENTS", "_NEEDLES", "_MARKS", "_STEMS"):
        monkeypatch.setattr(slot_paths, name, [])
    monkeypatch.setattr(slot_paths, "_OWN", {})


def settle(number: int) -> str:
    root = f"/cache/slots/20260101-000000-abcdef/{number}/tree"
    slot_paths.settle({"root": root, "private": f"/cache/slots/20260101-000000-abcdef/{number}/own"})
    return root


def moved(value: object) -> object:
    """Pickle in one slot, and unpickle in another."""
    settle(0)
    blob = argument_pickler.dumps(value, ROOM)
    settle(1)
    return slot_paths.load(blob)


def test_paths_become_those_of_another_slot():
    before, after = settle(0), settle(1)
    value = {"a": [f"{before}/x", f"{before}/x".encode()], "b": (PurePosixPath(before) / "y", "/elsewhere")}
    wanted = {"a": [f"{after}/x", f"{after}/x".encode()], "b": (PurePosixPath(after) / "y", "/elsewhere")}
    assert moved(value) == wanted
    assert type(moved(Path(before) / "y")) is type(Path())


def test_a_function_without_a_name_is_made_again_in_a_slot_whose_path_has_another_length():
    settle(0)
    code = compile("lambda x: (lambda y: (x, y, len))", f"{settle(0)}/test_it.py", "eval")
    blob = argument_pickler.dumps(eval(code, {}), ROOM)
    root = settle(10)
    made = slot_paths.load(blob)
    assert made(1)(2) == (1, 2, len)
    assert made.__code__.co_filename == made(1).__code__.co_filename == f"{root}/test_it.py"


@pytest.mark.parametrize("cut", ["ree", "/0/tree", "abcdef/0/tree"])
def test_a_path_that_was_cut_is_known_as_another_slot_s(cut: str):
    root = settle(0)
    for value in (
        root.removesuffix(cut),
        [f"x{root.removesuffix(cut)}y"],
        root.replace("tree", "trXe").encode(),
    ):
        assert slot_paths.names_a_part(argument_pickler.dumps(value, ROOM)), value


def test_a_whole_path_and_what_is_above_all_slots_is_nobody_s_part():
    root = settle(0)
    for value in (
        root,
        f"{root}/x",
        PurePosixPath(root) / "y",
        "/cache/slots",
        "/cache/slot",
        "/cache",
        "slots/",
    ):
        assert not slot_paths.names_a_part(argument_pickler.dumps(value, ROOM)), value


def test_what_holds_no_such_path_is_pickled_as_ever():
    settle(0)
    value = [1, "20260101", b"/cache", Path("/cache"), {"x": None}]
    plain = argument_pickler.dumps(value, ROOM)
    assert slot_paths.load(plain) == value
    assert not slot_paths.is_marked(plain)
    assert moved(["20260101-000000-abcdef", b"\xff"]) == ["20260101-000000-abcdef", b"\xff"]


def test_temporary_files_of_a_test_are_gone():
    settle(0)
    private = "/cache/slots/20260101-000000-abcdef/0/own"
    found = moved(f"{private}/tmp/x")
    assert found == "/cache/slots/20260101-000000-abcdef/1/ow_/tmp/x"
    # What is made of it is the same text everywhere.
    assert encode(found) == encode("/cache/slots/20260101-000000-abcdef/1/own/tmp/x")


def test_values_are_the_same_in_all_slots():
    def digests(number: int) -> list[str]:
        root = settle(number)
        values = [f"{root}/x", [root], {root: 1}, f"{root}/y".encode(), Path(root) / "z", {"p": [Path(root)]}]
        return [encode(value).full for value in values]

    assert digests(0) == digests(1)
    assert len(set(digests(0))) == 6


def test_what_is_above_a_tree_is_the_same_in_all_slots():
    def digests(number: int) -> list[str]:
        above = str(Path(settle(number)).parent)
        values = [above, str(Path(above).parent), [f"{above}/x"], f"{above}/y".encode(), Path(above)]
        return [encode(value).full for value in values]

    assert digests(0) == digests(1)
    assert len(set(digests(0))) == 5


def test_no_value_is_taken_for_a_path():
    root = settle(0)
    assert encode("\0slot\0/x").full != encode(f"{root}/x").full
    assert moved("\0slot\0") == "\0slot\0"


def test_a_root_with_a_link_in_it_is_known_by_both_names(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    slot_paths.settle({"root": str(tmp_path / "link"), "private": str(tmp_path / "own")})
    assert encode(str(tmp_path / "real" / "x")).full == encode(str(tmp_path / "link" / "x")).full
    blob = argument_pickler.dumps(str(tmp_path / "real" / "x"), ROOM)
    assert slot_paths.load(blob) == str(tmp_path / "link" / "x")


def test_letters_beyond_ascii_are_no_hindrance():
    def digests(number: int) -> list[str]:
        root = f"/cache/größe \udcff/{number}/tree"
        slot_paths.settle({"root": root, "private": f"/cache/größe \udcff/{number}/own"})
        assert slot_paths.load(argument_pickler.dumps(root, ROOM)) == root
        return [encode(value).full for value in (root, os.fsencode(root), Path(root) / "x", [f"{root}/y"])]

    assert digests(0) == digests(1)


@pytest.mark.parametrize("size", [0, 1 << 17])
def test_values_that_name_the_slot_have_the_same_digest_in_every_slot(size: int):
    found = set()
    for number in (0, 1):
        text = f"{settle(number)}/x" + "z" * size
        found.add((digest([text]), digest(text.encode()), digest({"a": (text, 1)})))
    assert len(found) == 1


def digest(value: object) -> str:
    walk = Walk("refuse")
    walk.run(value)
    return str(walk.digest())
