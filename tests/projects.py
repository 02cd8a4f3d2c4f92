"""Tiny repositories for integration tests, made in a temporary folder."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from harness import commit_all

#: A function with room for improvement, and tests that see what it does.
SLOW_TOTAL = '''
def total(values):
    """Return the sum of the squares."""
    result = 0
    for value in values:
        for _ in range(5):
            pass
        result += value * value
    return result
'''

TEST_TOTAL = """
import pytest
from shop.sums import total

@pytest.mark.parametrize("values", [range(40), range(80), range(120), range(-160, 0), range(200)])
def test_total(values):
    assert total(list(values)) == sum(v * v for v in values)
"""

FAST_TOTAL = "def total(values):\n    return sum(value * value for value in values)\n"
WRONG_TOTAL = "def total(values):\n    return sum(values)\n"


def make_project(folder: Path, **files: str) -> Path:
    """Make a repository of the shop; `files` adds or replaces files (``__`` stands for ``/``, ``_py`` ends)."""
    texts = {"shop/__init__.py": "", "shop/sums.py": SLOW_TOTAL, "tests/test_sums.py": TEST_TOTAL}
    texts |= {name.replace("__", "/").replace("_py", ".py"): text for name, text in files.items()}
    return write_repository(folder, texts)


def write_repository(folder: Path, texts: dict[str, str]) -> Path:
    """Write files and commit them."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    commit_all(folder)
    return folder
