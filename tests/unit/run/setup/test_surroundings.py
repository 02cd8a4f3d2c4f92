"""What an open evaluator does not look at again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codeflash_parallel.run.setup.surroundings import Surroundings, digest_of_packages


def test_the_change_is_named() -> None:
    old = Surroundings(variables=(("CI", "1"), ("HOME", "/a")), interpreter="python", packages=1, secrets=())
    assert old.change_to(old) == ""
    assert old.change_to(old._replace(variables=(("CI", "2"),))) == "other values of CI, HOME"
    assert "interpreter" in old.change_to(old._replace(interpreter="pypy"))
    assert "a file of a package" in old.change_to(old._replace(packages=2))
    assert "secrets" in old.change_to(old._replace(secrets=("/a/.aws",)))


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name in ("site/one/__init__.py", "site/one/data.txt", "site/one/__pycache__/x.py", "linked/two.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old")
    (tmp_path / "site" / "zz.pth").write_text(f"import nothing\n{tmp_path / 'linked'}\n")
    (tmp_path / "site" / "one" / "circle").symlink_to(tmp_path / "site")
    about = tmp_path / "site" / "three.dist-info" / "direct_url.json"
    about.parent.mkdir()
    about.write_text(json.dumps({"url": f"file://{tmp_path}/with%20blank", "dir_info": {"editable": True}}))
    (tmp_path / "site" / "four.dist-info").mkdir()
    (tmp_path / "site" / "four.dist-info" / "direct_url.json").write_text("[")
    (tmp_path / "with blank" / "three").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        (lambda at: (at / "site/one/__init__.py").write_text("new "), True),
        (lambda at: os.utime(at / "site/one/__init__.py", (1, 1)), True),
        (lambda at: (at / "linked/two.py").write_text("new "), True),
        (lambda at: (at / "with blank/three/new.so").touch(), True),
        (lambda at: (at / "site/one/__init__.py").unlink(), True),
        (lambda at: (at / "site/one/data.txt").write_text("new "), False),
        (lambda at: (at / "site/one/__pycache__/x.py").write_text("new "), False),
    ],
)
def test_changed_files_of_packages_are_seen(
    packages: Path, change: Callable[[Path], object], is_seen: bool
) -> None:
    def digest() -> int:
        return digest_of_packages([packages / "site", packages / "absent"], packages / "repository")

    before = digest()
    assert digest() == before
    change(packages)
    assert (digest() != before) is is_seen


def test_the_project_itself_is_no_package(packages: Path) -> None:
    before = digest_of_packages([packages / "site"], packages / "linked")
    (packages / "linked" / "two.py").write_text("new ")
    assert digest_of_packages([packages / "site"], packages / "linked") == before
