"""The reference pages say what the code says, and the other way round."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from contract import shipped_schema

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.main import LEAVES, find_command
from codeflash_parallel.cli.options import make_parser
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_table import SettingColumns
from codeflash_parallel.queue.jobs import JobKind, JobState, WaitReason
from codeflash_parallel.queue.queue_settings import QUEUE_SETTINGS
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def made() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "docs" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(ROOT / "docs"))
        spec.loader.exec_module(module)
        yield module


@pytest.mark.parametrize(
    "name", ["commands.md", "json.md", "exit-codes.md", "../../codeflash_parallel/report/schema.json"]
)
def test_a_page_is_what_the_code_says(made: ModuleType, name: str) -> None:
    assert (PAGES / name).read_text(encoding="utf-8") == made.pages()[name], "run docs/make_reference.py"


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    return re.split(r"^## ", text.split(f"\n## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.mark.parametrize("name", LEAVES)
def test_every_option_of_a_command_is_documented(name: str) -> None:
    parser = make_parser(name, "")
    find_command(name).add_arguments(parser)
    text = page("commands.md")
    own = (
        text.partition("\n## run\n")[0]
        + section(text, "run" if name == "check" else name)
        + section(text, "Settings")
    )
    own += section(text, "Settings of the queue") if name == "serve" else ""
    for action in parser._actions:
        for flag in action.option_strings:
            if flag not in {"-h", "--help"} and not flag.startswith("--no-"):
                assert re.search(rf"`{re.escape(flag)}[ `]", own), flag


@pytest.mark.parametrize(
    ("title", "row"),
    [
        *(("Settings", row) for row in SETTINGS.values()),
        *(("Settings of the queue", row) for row in QUEUE_SETTINGS.values()),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_setting_is_documented_in_all_its_spellings(title: str, row: SettingColumns) -> None:
    settings = section(page("commands.md"), title)
    for spelling in (row.key, row.flag, row.variable):
        assert f"`{spelling}`" in settings


def rows(text: str) -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE))


def test_the_vocabularies_are_documented_and_nothing_else_is() -> None:
    text = page("json.md")
    assert rows(section(text, "Verdicts")) == {v.value for v in Verdict}
    assert rows(section(text, "Statuses")) == {s.value for s in CandidateStatus}
    assert rows(section(text, "Codes")) == {c.value for c in Code}
    assert rows(section(text, "The document")) >= set(shipped_schema("schema.json")["properties"])
    queue = section(text, "The queue")
    assert rows(queue) >= {*JobState, *JobKind, *(waiting.name for waiting in WaitReason)}
    assert rows(queue) >= set(shipped_schema("queue.schema.json")["properties"]) | {
        "QUEUE_FULL",
        "RATE_LIMITED",
        "LEASE_LOST",
    }
    assert rows(page("exit-codes.md")) == {str(int(code)) for code in ExitCode}


def test_links_inside_the_pages_lead_somewhere() -> None:
    for name in ("commands.md", "json.md", "exit-codes.md"):
        text = page(name)
        titles = {
            title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        }
        assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= titles
