"""Pages of runs of every kind: sound, self-contained, bounded; what others wrote is text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from page_cases import (
    ATTACKS,
    RED,
    RUNS,
    TRACE,
    WON,
    assert_sound,
    hostile,
    judged,
    many,
    many_trace,
    run_of,
    text_in,
)
from result_strategies import run_results

from codeflash_parallel.report.page.run_page import page_document, run_page
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import HostUse
from codeflash_parallel.run.run_trace import ArmRounds, RunTrace


def page_of(name: str, trace: RunTrace = TRACE) -> str:
    return text_in(assert_sound(run_page(RUNS[name], trace)))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("trace", [TRACE, RunTrace()], ids=["traced", "without a trace"])
def test_a_page_of_every_kind_of_run_is_sound(name: str, trace: RunTrace) -> None:
    page_of(name, trace)


@given(run_results())
def test_a_page_of_any_result_is_sound(result) -> None:
    assert_sound(run_page(result, RunTrace()))


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_what_others_wrote_is_text_and_bounded(text: str) -> None:
    html = run_page(hostile(text), RunTrace())
    assert_sound(html)
    assert not {"\x00", "\x1b", "\u202e", "\ud800", "\uffff"} & set(html)


def test_an_attack_is_shown_as_it_was_written() -> None:
    root = assert_sound(run_page(hostile(ATTACKS[0]), RunTrace()))
    (lead,) = (one for one in root.iter("p") if one.attrib.get("class") == "lead")
    assert lead.text == ATTACKS[0]


def test_the_page_of_a_winner_says_how_to_apply_it() -> None:
    text = page_of("winner")
    assert "Winner: best" in text
    assert "codeflash-parallel apply 20260101-000000-abcdef" in text


def test_the_page_names_the_hosts_of_the_run() -> None:
    uses = (HostUse(host="node7", raced=True), HostUse(host="node8", left_out="It has no room."))
    text = text_in(assert_sound(run_page(replace(RUNS["winner"], hosts=uses), TRACE)))
    assert "node7: held the race" in text
    assert "node8: left out: It has no room." in text


@pytest.mark.parametrize(
    ("name", "heading", "words"),
    [
        ("tie", "Tie: a, b", "codeflash-parallel apply"),
        ("nothing faster", "Nothing faster", "codeflash-parallel show"),
        ("all rejected", "None correct", "--candidate wrong"),
        ("error", "No verdict", "Mend them."),
        ("interrupted", "No verdict", "codeflash-parallel resume"),
        ("no candidates", "None correct", "There are none."),
        ("error", "No verdict", "None has a result."),
    ],
)
def test_the_heading_is_the_verdict_and_what_is_next_follows(name: str, heading: str, words: str) -> None:
    root = assert_sound(run_page(RUNS[name], TRACE))
    assert root.findtext(".//h1") == heading
    assert words in text_in(root)


def test_values_that_differ_are_shown_with_the_smaller_example_and_the_command() -> None:
    text = page_of("all rejected")
    for words in ("call 3 of", "[1, 2]", "a smaller one", "[1]", "python -m pytest t.py::t"):
        assert words in text


def test_the_heat_map_names_only_tests_that_differ() -> None:
    root = assert_sound(run_page(RUNS["winner"], TRACE))
    (heat,) = (one for one in root.iter("table") if one.attrib.get("class") == "heat")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in heat.findall("tbody/tr")}
    assert [head[0].text for head in heat.iter("th") if head.attrib["scope"] == "col"] == [
        *("test", "best", "red", "other red"),
    ]
    # Of a candidate that did not run all tests, those that are not named are not known.
    assert rows == {
        "t.py::t": ["ok", "F", "ok"],
        "t.py::u": ["ok", "F", "F"],
        "t.py::v": ["ok", "M", "ok"],
    }
    assert "10 other tests are not known to differ" in text_in(root)
    # A test that only the other one fails is not known of a candidate that did not run all tests.
    other = replace(RED, id=CandidateId("third"), tests=replace(RED.tests, failed_ids=("x",), failed=2))
    assert "?" in text_in(assert_sound(run_page(run_of(Verdict.NONE_CORRECT, RED, other), TRACE)))


def test_the_tree_has_repairs_refinements_and_duplicates_under_their_parents() -> None:
    root = assert_sound(run_page(RUNS["winner"], TRACE))
    (tree,) = (one for one in root.iter("ul") if one.attrib.get("class") == "tree")
    tops = {item[0].text if len(item) > 1 else "": item for item in tree}
    below = {name: [node.text for node in item.findall("ul/li/strong")] for name, item in tops.items()}
    assert below["best"] == ["best-refined", "same"]
    assert below["wrong"] == ["wrong-repair"]
    assert "unchanged" in text_in(tree)


def test_parents_that_name_each_other_or_go_deep_end_the_tree() -> None:
    names = [f"c{n}" for n in range(200)]
    chain = [
        judged(n, CandidateStatus.LOST, Code.BEATEN, parent=CandidateId(p) if p else None)
        for n, p in zip(names, [None, *names], strict=False)
    ]
    text = text_in(assert_sound(run_page(run_of(Verdict.NOTHING_FASTER, *chain), RunTrace())))
    assert "c199" in text
    round_ = [judged(n, CandidateStatus.LOST, Code.BEATEN, parent=CandidateId(p)) for n, p in ("xy", "yx")]
    root = assert_sound(run_page(run_of(Verdict.NOTHING_FASTER, *round_), RunTrace()))
    (tree,) = (one for one in root.iter("ul") if one.attrib.get("class") == "tree")
    assert {one.text for one in tree.iter("strong")} == {"x", "y"}


def test_two_hundred_candidates_and_five_thousand_tests_fit_and_what_is_cut_is_said() -> None:
    html = run_page(many(), many_trace())
    text = text_in(assert_sound(html))
    for words in ("140 more candidates", "more tests are not shown", "more messages", "Left out, because"):
        assert words in text, words
    assert "more colder lines" in text


def test_everything_on_the_page_can_be_had_as_json() -> None:
    data = page_document(RUNS["winner"], TRACE)
    assert data["winner"] == "best"
    assert data["rounds"]["best"]["seen"] == [2.4, 2.6]
    assert {"candidate": "wrong", "stage": "checking", "slot": 2, "from_ms": 61.0, "to_ms": 80.0} in data[
        "timeline"
    ]


def test_names_in_json_can_be_read_by_anyone() -> None:
    trace = RunTrace(rounds={"\ud800": ArmRounds("race", (float("inf"),), ())})
    assert page_document(RUNS["winner"], trace)["rounds"] == {
        "\\ud800": {"stage": "race", "seen": [None], "unseen": []}
    }


def test_a_winner_that_needs_a_look_says_so_beside_its_reason() -> None:
    text = text_in(assert_sound(run_page(run_of(Verdict.WINNER, replace(WON, hints=("It sorts.",))), TRACE)))
    assert "Review: It sorts." in text
