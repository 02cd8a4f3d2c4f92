"""The projects of `fixtures/real_projects`: a pinned distribution each, one function of it, our candidates.

Nothing of the projects' own text is kept here: a candidate that is a small change of it is described by its
edits, and becomes a patch when the source distribution has been unpacked.
"""

from __future__ import annotations

import difflib
import os
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent.parent / "fixtures" / "real_projects"
#: In the order in which a smaller number takes them.
NAMES = ("packaging", "more_itertools", "click", "boltons", "toolz", "markdown_it")
#: How many to run.
COUNT = int(os.environ.get("CODEFLASH_PARALLEL_REAL_PROJECTS", str(len(NAMES))))


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """One of them, with its expectations."""

    folder: Path
    expected: Mapping[str, Any]

    @property
    def pin(self) -> str:
        return f"{self.expected['distribution']}=={self.expected['version']}"

    @property
    def path(self) -> str:
        """The target's file."""
        return str(self.expected["function"].partition("::")[0])

    def arguments(self, candidates: Path) -> list[str]:
        """Return what the command line is told about target, tests and candidates."""
        expected = self.expected
        arguments = ["--function", expected["function"], "--candidates", str(candidates)]
        arguments += ["--tests", *expected["tests"], "--output-format", "json"]
        return [*arguments, "-k", expected["keyword"]] if "keyword" in expected else arguments

    def write_candidates(self, source: str, folder: Path) -> Path:
        """Write all candidates into a folder: those of ours as they are, edits of the project's text as patches."""
        shutil.copytree(self.folder / "candidates", folder)
        for name, candidate in self.expected["candidates"].items():
            if "edits" in candidate:
                patch = self._patch(source, candidate["edits"])
                (folder / f"{name}.patch").write_text(patch, encoding="utf-8")
        return folder

    def _patch(self, source: str, edits: Sequence[Mapping[str, str]]) -> str:
        changed = source
        for edit in edits:
            changed = _edited(changed, edit)
        lines = [text.splitlines(keepends=True) for text in (source, changed)]
        return "".join(difflib.unified_diff(*lines, f"a/{self.path}", f"b/{self.path}"))


def _edited(text: str, edit: Mapping[str, str]) -> str:
    """Replace the only occurrence of `from` (and, with `until`, all up to there) by `to`."""
    before, found, after = text.partition(edit["from"])
    assert found, edit["from"]
    if "until" in edit:
        _, until, rest = after.partition(edit["until"])
        assert until, edit["until"]
        after = until + rest
    else:
        assert edit["from"] not in after, edit["from"]
    return before + edit["to"] + after


def load(name: str) -> Project:
    text = (HERE / name / "project.toml").read_text(encoding="utf-8")
    return Project(folder=HERE / name, expected=tomllib.loads(text))
