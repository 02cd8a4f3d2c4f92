from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.path_policy import collisions, refuse_form, refuse_new, refuse_path


@pytest.mark.parametrize(
    "path",
    [
        "src/pkg/mod.py",
        "mod.py",
        "src/päckage/módule.py",
        "a b/c d.py",
        "pkg/contest.py",
        "pkg/testing/x.py",
        "data/x.txt",
    ],
)
def test_ordinary_paths_are_allowed(path: str) -> None:
    assert refuse_path(path) == ""


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/etc/passwd",
            "../x.py",
            "a/../b.py",
            "./a.py",
            "a//b.py",
            "a/",
            "a\0b",
            "a\nb.py",
            "a\x7f.py",
            "a\\b.py",
        ),
        *(".git/config", "sub/.git", ".GIT/hooks/x", ".gitattributes", "x/.gitignore", "a" * 256),
        *(
            "tests/test_x.py",
            "pkg/tests/helpers.py",
            "test/x.py",
            "test_x.py",
            "pkg/x_test.py",
            "conftest.py",
            "a/conftest.py",
        ),
        *(
            "pytest.ini",
            "pyproject.toml",
            "sub/setup.cfg",
            "tox.ini",
            "setup.py",
            "sitecustomize.py",
            "a/usercustomize.py",
        ),
        *(
            "x.pth",
            "pkg/_c.so",
            "pkg/_c.so.1",
            "pkg/x.pyd",
            "pkg/__pycache__/x.cpython-311.pyc",
            "x.pyc",
            "pkg/__pycache__/x",
        ),
    ],
)
def test_what_could_decide_its_own_judgement_is_refused(path: str) -> None:
    assert refuse_path(path)


def test_protected_files_and_folders_are_refused() -> None:
    assert refuse_path("gen/x.py", protected=("gen/",))
    assert refuse_path("gen.py", protected=("gen.py",))
    assert not refuse_path("generated/x.py", protected=("gen/", "generated"))


@pytest.mark.parametrize("path", ["json.py", "pytest.py", "src/pytest/__init__.py", "random/__init__.py"])
def test_a_new_top_level_module_may_not_shadow_one_that_judges(path: str) -> None:
    assert refuse_new(path, {path})


@pytest.mark.parametrize("path", ["pkg/json.py", "src/pkg/random/__init__.py", "pkg/json.txt", "fast.py"])
def test_a_new_module_inside_a_package_may_have_any_name(path: str) -> None:
    assert not refuse_new(path, {path, "pkg/__init__.py", "src/pkg/__init__.py"})


def test_names_that_differ_only_in_case_or_spelling_collide() -> None:
    assert collisions(["pkg/Mod.py"], ["pkg/mod.py"]) == ("pkg/Mod.py",)
    assert collisions(["é.py"], ["e\u0301.py"]) == ("é.py",)
    assert collisions(["a.py", "A.py"], []) == ("a.py",)
    assert collisions(["b.py"], ["a.py", "b.py"]) == ()


@given(st.text())
def test_any_text_gets_an_answer(text: str) -> None:
    assert isinstance(refuse_path(text), str)
    assert bool(refuse_form(text)) <= bool(refuse_path(text))


@given(st.text())
def test_no_allowed_path_leaves_the_tree(text: str) -> None:
    if not refuse_form(text):
        assert not text.startswith("/")
        assert ".." not in text.split("/")
