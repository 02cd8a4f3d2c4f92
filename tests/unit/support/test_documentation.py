"""README and docs: links lead somewhere, commands are executed, and what is named exists."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from documentation import (
    DOCS,
    ELSEWHERE,
    LANGUAGES,
    NOT_RUN,
    ROOT,
    Block,
    blocks,
    commands,
    executed_pages,
    name_of,
    pages,
    reason_not_run,
    script_of,
)

PACKAGE = ROOT / "codeflash_parallel"
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


@functools.cache
def anchors(page: Path) -> set[str]:
    """Return the anchors that Python-Markdown gives to the titles of a page."""
    titles = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(prose(page)):
        if link.startswith("https://"):  # tests are offline
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_names_its_language(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0


def test_every_command_is_executed_or_has_a_reason_why_not() -> None:
    given = [c for page in pages() for b in blocks(page) if b.language == "sh" for c in commands(b)]
    left_out = [command for command in given if reason_not_run(command)]
    assert all(any(command.startswith(begin) for command in left_out) for begin in NOT_RUN), (
        "an entry is stale"
    )
    assert len(left_out) == 17, left_out
    assert len(given) > 40
    for page, test in ELSEWHERE.items():
        assert (ROOT / page).is_file()
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def test_files_that_a_page_shows_are_written_before_its_commands() -> None:
    page = DOCS / "how-to" / "optimizer_loop.md"
    assert page in executed_pages()
    script = script_of(page)
    assert script.index("cat > loop.py") < script.index("\npython loop.py")


def test_a_command_is_taken_with_the_lines_on_which_it_is_continued() -> None:
    block = Block(language="sh", text="one \\\n  more\n\ntwo |\n  three\n# no command\n")
    assert commands(block) == ["one \\\n  more", "two |\n  three", "# no command"]


def test_ci_runs_the_second_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = [line for line in readme.splitlines() if line.endswith(".venv/bin/nox")]
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert command.split(" && ") == steps[-3:]


def test_all_decisions_are_listed() -> None:
    listed = _LINK.findall((DOCS / "decisions" / "index.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    for name in listed:
        text = (DOCS / "decisions" / name).read_text(encoding="utf-8")
        assert text.startswith(f"# {int(name[:4])}. ")
        assert "**Decision.**" in text
        assert "**Why.**" in text
        assert "**Cost.**" in text


def test_the_page_of_the_architecture_names_all_rooms() -> None:
    text = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", text, flags=re.MULTILINE)
    assert {room for room, _ in rows} == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    for room, reading in rows:
        for file in re.findall(r"`(\w+\.py)`", reading):
            assert (PACKAGE / room / file).is_file(), f"{room}/{file}"


def test_the_places_of_changes_exist() -> None:
    text = (
        (ROOT / "CONTRIBUTING.md")
        .read_text(encoding="utf-8")
        .split("## Where things go")[1]
        .split("\n## ")[0]
    )
    places = [
        place for row in re.findall(r"^\|.*\| (.*) \|$", text, flags=re.MULTILINE) for place in row.split()
    ]
    named = [
        place.strip("`,;.") for place in places if place.startswith("`") and "/" in place and "<" not in place
    ]
    assert len(named) > 8
    for place in named:
        assert (ROOT / place).exists() or (PACKAGE / place).exists(), place
