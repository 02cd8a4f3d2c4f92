"""Order of the code that is reached already and must stay: `benchmarks/house.py` measures it."""

from __future__ import annotations

import builtins
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("grimp")  # comes with import-linter, which newer Pythons do not get
sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import house


def test_no_modules_import_each_other() -> None:
    assert house.import_cycles() == []


@pytest.mark.slow
def test_names_are_nouns_and_public_classes_exist_once() -> None:
    modules = [path for path in house.files_of(house.PACKAGE) if path.name != "__init__.py"]
    assert house.gerunds(modules) == []
    assert house.repeated_names(modules) == []


def test_a_room_can_be_taken_in_at_a_glance() -> None:
    rooms = Counter(path.parent for path in house.files_of(house.PACKAGE) if path.name != "__init__.py")
    assert max(rooms.values()) <= house.MOST_IN_A_ROOM


def test_docstrings_comments_and_blank_lines_are_no_lines_of_code() -> None:
    text = '"""Module.\n\nMore.\n"""\n\nx = 1  # why\n# note\n\n\ndef f():\n    """Say."""\n    return """a\n\nb"""\n'
    assert house.lines_of_code(text) == 5


def test_files_of_tests_have_names_of_their_own() -> None:
    names = Counter(
        path.name for path in house.files_of(house.ROOT / "tests") if path.name.startswith("test_")
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_docstrings_say_what_a_thing_is() -> None:
    """A noun or a verb comes first; a docstring that begins with "what" or "how" leaves the thing unnamed."""
    question = re.compile(r'"""(What|Which|How|Whose|Where|Who)\b')
    found = [path.name for path in house.files_of(house.PACKAGE) if question.search(path.read_text("utf-8"))]
    assert found == []


def test_exceptions_that_docstrings_name_exist() -> None:
    texts = [path.read_text("utf-8") for path in house.files_of(house.PACKAGE)]
    known = {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE)}
    known |= {*vars(builtins), "PicklingError", "ToolError"}
    sections = re.compile(r"^( *)Raises:\n((?:\1 {4}.*\n)+)", re.MULTILINE)
    found = (section for text in texts for section in sections.findall(text))
    named = {
        name for left, lines in found for name in re.findall(rf"^{left}    ([A-Z]\w+): ", lines, re.MULTILINE)
    }
    assert len(named) > 20
    assert named <= known, named - known
