"""Print what runs of the real cases came to, as a Markdown table a program: a row a case, and the totals.

python benchmarks/real_cases/table.py runs.jsonl more.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from build import add_facts, load_facts
from judge import Judgement, judge

HEADINGS = (
    *("case", "right", "verdict", "winner against truth", "wrongly accepted", "called equivalent"),
    *("wrongly rejected", "hints", "undecided", "s (aim)", "x plain", "s by phase", "workload", "load"),
)
#: Verdicts that say which candidates are the fastest, or that none is.
SAID = frozenset({"winner", "tie", "nothing_faster", "none_correct"})
#: What the result document calls the phases that cost anything, in their order.
PHASES = ("snapshot", "baseline", "behavior", "race", "profile", "refine", "report")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the runs in a file."""
    try:
        return [json.loads(text) for text in path.read_text("utf-8").splitlines() if text]
    except (OSError, ValueError) as error:
        raise SystemExit(f"no runs in {path}: {error}") from None


def row(case: str, line: Mapping[str, Any], judgement: Judgement) -> tuple[str, ...]:
    """Return the cells of one run."""
    named = ", ".join(judgement.named)
    hints = [*judgement.hinted, *(f"{name} (honest)" for name in judgement.wrongly_hinted)]
    unjudged = [f"{count} {code}" for code, count in Counter(judgement.unjudged.values()).items()]
    phases = [
        f"{name} {judgement.phases_s[name]:.0f}" for name in PHASES if judgement.phases_s.get(name, 0) >= 1
    ]
    return (
        case,
        "yes" if judgement.right else "**no**",
        judgement.verdict,
        f"{named}: {judgement.found}" if named else str(judgement.found),
        ", ".join(judgement.accepted),
        ", ".join(judgement.called_equivalent),
        _with_codes(judgement.rejected),
        ", ".join(hints),
        ", ".join(filter(None, (_with_codes(judgement.undecided), *unjudged))),
        f"{judgement.seconds:.0f} ({judgement.aim_s:.0f})" + (", ended" if line["unfinished"] else ""),
        f"{judgement.times_plain:.0f}",
        ", ".join(phases),
        judgement.workload,
        f"{line['load_before']:.1f}",
    )


def _with_codes(codes: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {code}" for name, code in codes.items())


def totals(judgements: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the last row: how many, and for times the sum and the mean multiple."""

    def sum_of(field: str) -> str:
        return str(sum(len(getattr(each, field)) for each in judgements))

    met = sum(each.found.meets_truth for each in judgements)
    within = sum(each.seconds <= each.aim_s for each in judgements)
    phases = {name: sum(each.phases_s.get(name, 0) for each in judgements) for name in PHASES}
    return (
        f"all {len(judgements)}",
        str(sum(each.right for each in judgements)),
        f"unfinished: {sum(each.found == 'unfinished' for each in judgements)}",
        f"{met} meet the truth",
        *(sum_of("accepted"), sum_of("called_equivalent"), sum_of("rejected")),
        f"{sum_of('hinted')}, of honest ones {sum_of('wrongly_hinted')}",
        str(sum(len({**each.undecided, **each.unjudged}) for each in judgements)),
        f"{sum(each.seconds for each in judgements):.0f}, {within} within the aim",
        f"{fmean(each.times_plain for each in judgements):.0f} on average",
        ", ".join(f"{name} {seconds:.0f}" for name, seconds in phases.items() if seconds >= 1),
        "",
        "",
    )


def aims(judgements: Mapping[str, Sequence[Judgement]]) -> str:
    """Return what is asked of all runs of a label together, and what they came to; by case the judgements."""
    runs = [(case, each) for case, of_case in judgements.items() for each in of_case]
    all_of = [each for _, each in runs]
    met = sum(each.found.meets_truth for each in all_of)
    accepted = [f"{case} {name}" for case, each in runs for name in each.accepted]
    rejected = [f"{case} {name} {code}" for case, each in runs for name, code in each.rejected.items()]
    honest = sum(each.honest for each in all_of)
    no_verdict = [f"{case} {each.verdict}" for case, each in runs if each.verdict not in SAID]
    part = median(each.seconds / each.median_aim_s for each in all_of)
    late = [f"{case} {each.seconds:.0f} s" for case, each in runs if each.seconds > each.aim_s]
    rows = [
        ("asked of all", "aim", "came to", "which"),
        ("true winner, or in its tie", ">= 90 %", _share(met, len(runs)), ""),
        ("wrong or gamed accepted", "0", str(len(accepted)), ", ".join(accepted)),
        ("right rejected", "<= 1 %", _share(len(rejected), honest), ", ".join(rejected)),
        ("runs without a verdict", "<= 5 %", _share(len(no_verdict), len(runs)), ", ".join(no_verdict)),
        ("median of s / (15 s + 6 x plain)", "<= 1", f"{part:.2f}", ""),
        ("runs over 30 s + 10 x plain", "0", str(len(late)), ", ".join(late)),
    ]
    return _markdown(rows)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}, {part / whole:.1%}" if whole else "none"


def tables(lines: Iterable[Mapping[str, Any]], facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table of each label, in the order in which they come; the cases are in that of the facts."""
    by_label: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        by_label.setdefault(_label(line), []).append(line)
    parts = []
    order = list(facts)
    for label, of_label in by_label.items():
        chosen = sorted(of_label, key=lambda line: order.index(line["case"]))
        judgements = [judge(facts[line["case"]], line) for line in chosen]
        rows = [row(line["case"], line, each) for line, each in zip(chosen, judgements, strict=True)]
        by_case: dict[str, list[Judgement]] = {}
        for line, judgement in zip(chosen, judgements, strict=True):
            by_case.setdefault(line["case"], []).append(judgement)
        table = _markdown([HEADINGS, *rows, totals(judgements)])
        parts.append(f"## {label}\n\n{table}\n\n{aims(by_case)}")
    return "\n\n".join(parts)


def _label(line: Mapping[str, Any]) -> str:
    return f"{line['label']}, supplied" if line.get("supplied") else str(line["label"])


def side_by_side(lines: Iterable[Mapping[str, Any]], facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a table with a row a case and, for each label, what was named and the seconds."""
    cells: dict[str, dict[str, str]] = {}
    labels: list[str] = []
    for line in lines:
        judgement = judge(facts[line["case"]], line)
        faults = len(judgement.accepted) + len(judgement.rejected)
        said = f"{'right' if judgement.right else '**wrong**'}: {judgement.verdict}, {judgement.found}"
        said += f", {faults} misjudged, {judgement.seconds:.0f} s ({judgement.times_plain:.0f}x)"
        label = _label(line)
        labels += [label] if label not in labels else []
        of_case = cells.setdefault(line["case"], {})
        of_case[label] = "; ".join(filter(None, (of_case.get(label), said)))
    rows = [(case, *(cells[case].get(label, "") for label in labels)) for case in facts if case in cells]
    return _markdown([("case", *labels), *rows]) if len(labels) > 1 else ""


def details(line: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return a table of a run's candidates: what is known of each, and what was said."""
    told = {each["id"]: each for each in (line["document"] or {}).get("candidates", ())}
    rows = [("candidate", "class", "true speedup", "status", "code", "speedup", "hint", "reason")]
    for known in facts["candidates"]:
        if each := told.get(known["name"]):
            timed = "alone" if line.get("supplied") else "tests"
            true = known.get("truth", {}).get(timed) or known["expected"].get("speedup")
            figure, reason = each["speedup"], each["reason"].replace("\n", " ")[:160]
            speedup = (
                f"{figure['estimate']:.3f} ({figure['low']:.3f} to {figure['high']:.3f})" if figure else ""
            )
            said = (each["status"], each["code"], speedup, "yes" if each["outside"] else "", reason)
            rows.append((known["name"], known["class"], str(true or ""), *said))
    return f"### {line['case']}, {_label(line)}\n\n{_markdown(rows)}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = ["| " + " | ".join(cell.replace("|", "\\|") for cell in each) + " |" for each in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *rest])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="outputs of run.py")
    add_facts(parser)
    parser.add_argument("--details", action="store_true", help="also a table of each run's candidates")
    options = parser.parse_args()
    lines = [line for path in options.files for line in read_lines(path)]
    facts = {each["name"]: each for each in load_facts(options.facts)}
    more = [details(line, facts[line["case"]]) for line in lines] if options.details else []
    print("\n\n".join(filter(None, (side_by_side(lines, facts), tables(lines, facts), *more))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
