"""Pages in a real browser: nothing is requested or complained about, and they fit a phone and a keyboard.

With `AXE_CORE` (path of axe.min.js, npm package axe-core) and `VNU_JAR` (npm package vnu-jar) in the
environment, accessibility and HTML are validated, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, open_browser, probe
from page_cases import ATTACKS, RUNS, TRACE, assert_sound, hostile, many, many_trace
from queue_cases import DAEMON, HEALTH, JOB, view

from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.report.page.plots import file_of, speedup_plot
from codeflash_parallel.report.page.queue_page import queue_page
from codeflash_parallel.report.page.run_page import run_page
from codeflash_parallel.report.queue.queue_document import health_rows

WHY_NOT = probe()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no browser: {WHY_NOT}")

NAMES = [*RUNS, *(f"hostile {n}" for n in range(len(ATTACKS))), "many", "queue"]
LOOKS = [(1280, "light"), (1280, "dark"), (375, "light"), (375, "dark")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def page_of(name: str) -> str:
    """Return a page by its name."""
    if name == "queue":
        states = [state for state in JobState if state is not JobState.DONE]
        jobs = [JOB._replace(state=state, submitter=who) for state in states for who in ("ada", ATTACKS[0])]
        return queue_page(list(map(view, jobs)), health_rows(HEALTH, DAEMON))
    if name == "many":
        return run_page(many(), many_trace())
    if name.startswith("hostile"):
        return run_page(hostile(ATTACKS[int(name.split()[1])]), TRACE)
    return run_page(RUNS[name], TRACE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all pages."""
    made = tmp_path_factory.mktemp("pages")
    for name in NAMES:
        (made / f"{name}.html").write_text(page_of(name), encoding="utf-8")
    return made


@pytest.mark.parametrize("name", NAMES)
def test_a_page_requests_nothing_and_is_read_as_it_was_written(
    name: str, browser: Browser, folder: Path
) -> None:
    page = folder / f"{name}.html"
    browser.show(page, width=375, scheme="dark")
    assert {one["request"]["url"] for one in browser.named("Network.requestWillBeSent")} <= {page.as_uri()}
    assert browser.named("Log.entryAdded") == []
    assert browser.named("Runtime.exceptionThrown") == []
    # The same elements as a strict reader of XML finds: nothing that others wrote became one.
    count = sum(1 for _ in assert_sound(page.read_text(encoding="utf-8")).iter())
    assert browser.run("document.querySelectorAll('*').length") == count
    assert browser.run("[...document.styleSheets].length") == 1
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"


@pytest.mark.parametrize("name", ["winner", "many", "queue", "hostile 0", "hostile 8"])
def test_a_page_fits_a_phone_with_everything_open(name: str, browser: Browser, folder: Path) -> None:
    browser.show(folder / f"{name}.html", width=375, scheme="light")
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert browser.run("document.documentElement.scrollWidth") <= 375
    # Letters of plots keep their size, and names and figures do not run into each other.
    assert browser.run(OVERLAPS) == []


OVERLAPS = """
[...document.querySelectorAll('svg g')].flatMap(row => {
  const [name, figures] = [...row.querySelectorAll('text')].map(text => text.getBoundingClientRect());
  return name.right <= figures.left && figures.right <= innerWidth ? [] : [row.textContent];
})
"""


def test_the_keyboard_reaches_everything_that_can_be_opened(browser: Browser, folder: Path) -> None:
    browser.show(folder / "winner.html", width=1280, scheme="light")
    focused = "(one => one.tagName + ' ' + (one.getAttribute('aria-label') || one.textContent))(document.activeElement)"
    seen: list[str] = []
    while True:
        browser.press("Tab")
        if (now := browser.run(focused)) in seen or now.startswith("BODY"):
            break
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        seen.append(now)
    assert seen[0] == "A Skip to the result"
    summaries = browser.run(
        "[...document.querySelectorAll('summary')].map(one => 'SUMMARY ' + one.textContent)"
    )
    assert len(summaries) > 5
    assert set(summaries) <= set(seen)


@pytest.mark.skipif("AXE_CORE" not in os.environ, reason="AXE_CORE names no axe.min.js")
@pytest.mark.parametrize("name", ["winner", "tie", "error", "no run", "many", "queue", "hostile 0"])
def test_axe_finds_no_violation(name: str, browser: Browser, folder: Path) -> None:
    axe = Path(os.environ["AXE_CORE"]).read_text(encoding="utf-8")
    for width, scheme in LOOKS[: 1 if name == "many" else None]:
        browser.show(folder / f"{name}.html", width=width, scheme=scheme)
        browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
        browser.run(f"{axe};0")
        found = browser.run(
            "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))"
        )
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in json.loads(found)] == []


@pytest.mark.skipif("VNU_JAR" not in os.environ, reason="VNU_JAR names no vnu.jar")
def test_the_validator_finds_no_error(folder: Path) -> None:
    pages = sorted(map(str, folder.glob("*.html")))
    command = ["java", "-jar", os.environ["VNU_JAR"], "--errors-only", *pages]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (said.returncode, said.stderr) == (0, "")


def test_a_plot_that_is_a_file_is_drawn_by_itself(browser: Browser, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    plot.write_text(file_of(speedup_plot(RUNS["winner"], TRACE.rounds)), encoding="utf-8")
    ET.parse(plot)
    (tmp_path / "shown.html").write_text('<img src="plot.svg" alt="plot">', encoding="utf-8")
    browser.show(tmp_path / "shown.html", width=1280, scheme="light")
    assert browser.run("[document.images[0].naturalWidth, document.images[0].naturalHeight]") == [760, 128]
