"""Gamed rewrites of real functions: is a wrong one called equivalent, is a gamed one credited?

    python benchmarks/gamed.py [--functions slugify topk] [--kinds table folded] [--fields]
        [--program old=/old/venv/bin/python --program new=/new/venv/bin/python] [--file gamed.jsonl]

Ten functions of packages from the index, each with its project's own tests. A rewrite is the function under
another name, and in its place one that answers by a table or a memo where it can (*gamed*: right, and no
faster on new inputs), or one that gives another answer somewhere beyond the inputs of the tests (*wrong*).
These are recorded by one run of the tests. `--fields` races one table, one memo and two honest rewrites
instead. Exits 1 if a wrong one was accepted without a hint, a gamed one credited, or a field won otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gamed_rewrites import (
    FUNCTIONS,
    KINDS,
    Function,
    Recorded,
    candidates_of,
    honest_of,
    rewritten,
)
from workloads import Prepared, documented, machine, prepare

#: A pure call and its answer, on a line of a file, where the answer can be written down.
RECORD = (
    "import json as _j, math as _m",
    (
        "answer, size = {call}, {size}\n"
        "line = [repr({key}), repr(answer), size if _m.isfinite(size) else 0]\n"
        "try:\n    is_plain = eval(repr(answer)) == answer\nexcept Exception:\n    is_plain = False\n"
        "if is_plain:\n    with open({record!r}, 'a') as file:\n        file.write(_j.dumps(line) + '\\n')\n"
        "return answer"
    ),
)
OPTIONS = ("-j", "2")
#: A speedup above this is a credit.
CREDIT = 1.1


def recorded(function: Function, prepared: Prepared) -> Recorded:
    """Run the project's tests once with a function that writes its calls down."""
    source = prepared.file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.jsonl"
        text = rewritten(function, source, RECORD, {"longest": 0, "record": str(record)})
        prepared.file.write_text(text, encoding="utf-8")
        try:
            environment = {
                **prepared.plain_environment(prepared.place.repository),
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            done = subprocess.run(
                prepared.pytest,
                cwd=prepared.place.repository,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            prepared.file.write_text(source, encoding="utf-8")
        if done.returncode or not record.exists():
            raise SystemExit(
                f"{function.name}: its tests do not run\n{done.stdout[-2000:]}{done.stderr[-800:]}"
            )
        rows = dict.fromkeys(record.read_text(encoding="utf-8").splitlines())
    return Recorded(rows=[tuple(json.loads(row)) for row in rows])


def outcome(kind: str, found: Mapping[str, Any]) -> str:
    """Say in a word what became of a rewrite."""
    if found["status"] == "rejected":
        return "rejected"
    if found["status"] in {"cancelled", "infra", "unappliable"}:
        return "not judged"
    if KINDS[kind] == "wrong":
        return "hinted" if found["outside"] else "accepted"
    if found["code"] == "GAIN_ONLY_ON_SEEN_INPUTS":
        return "only on seen inputs"
    # A loser's figure is no claim, but it is what a reader takes home.
    speedup = (found["speedup"] or {"estimate": 0.0})["estimate"]
    if speedup > CREDIT:
        return "credited"
    return "undecided" if found["status"] == "undecided" else "no gain"


def measure(
    function: Function,
    prepared: Prepared,
    found: Recorded,
    label: str,
    program: str,
    kinds: Sequence[str],
    more: Sequence[str],
) -> list[dict[str, Any]]:
    """Judge the rewrites of a function by one version of the tool; return a line for each."""
    source = prepared.file.read_text(encoding="utf-8")
    chosen = [kind for kind in kinds if kind not in function.equal]
    entries = candidates_of(function, source, found, chosen)
    document = documented(prepared, program, "run", entries, (*OPTIONS, *more))
    lines = []
    for each in document["candidates"]:
        result = outcome(each["id"], each)
        line = {"program": label, "function": function.name, "kind": each["id"], "outcome": result}
        line |= {"class": KINDS[each["id"]], "status": each["status"], "code": each["code"]}
        line |= {"speedup": (each["speedup"] or {}).get("estimate"), "reason": each["reason"]}
        lines.append({**line, "seconds": document["timings"]["total"] / 1e3})
    return lines


def field(
    function: Function, prepared: Prepared, found: Recorded, label: str, program: str, more: Sequence[str]
) -> dict[str, Any]:
    """Race a table, a memo and the honest rewrites; return who is named."""
    source = prepared.file.read_text(encoding="utf-8")
    honest = honest_of(function, source)
    entries = [*candidates_of(function, source, found, ["table", "memo"]), *honest]
    document = documented(prepared, program, "run", entries, (*OPTIONS, *more))
    named = sorted({*document["tie_set"], *([document["winner"]] if document["winner"] else [])})
    return {
        "program": label,
        "function": function.name,
        "kind": "field",
        "class": "field",
        "named": named,
        "verdict": document["verdict"],
        "outcome": "honest" if named and {*named} <= {c.id for c in honest} else "not honest",
        "told": {c["id"]: [c["status"], c["code"], c["reason"]] for c in document["candidates"]},
    }


OUTCOMES = (
    "rejected",
    "hinted",
    "accepted",
    "only on seen inputs",
    "no gain",
    "undecided",
    "credited",
    "not judged",
)


def report(lines: Sequence[Mapping[str, Any]]) -> int:
    """Print a table for each program; return 1 if one has a fault."""
    faults = 0
    for label in dict.fromkeys(line["program"] for line in lines):
        own = [line for line in lines if line["program"] == label]
        print(f"\n{label}: {len(own)} lines of {len({line['function'] for line in own})} functions")
        print(f"{'kind':24}{'n':>4}" + "".join(f"{name.replace('only on ', ''):>13}" for name in OUTCOMES))
        for kind in [*(k for k in KINDS if any(line["kind"] == k for line in own)), "gamed", "wrong"]:
            some = [line for line in own if kind in (line["kind"], line["class"])]
            counted = Counter(line["outcome"] for line in some)
            print(f"{kind:24}{len(some):4}" + "".join(f"{counted[name]:13}" for name in OUTCOMES))
        for line in own:
            if line["outcome"] in {"accepted", "credited", "not judged", "not honest"}:
                faults += 1
                print(
                    f"  {line['outcome']}: {line['function']} {line['kind']}: "
                    f"{line.get('reason') or line['told']}"
                )
            elif line["class"] == "field":
                print(f"  {line['outcome']}: {line['function']}: {', '.join(line['named'])}")
    return 1 if faults else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", nargs="+", default=list(FUNCTIONS), choices=list(FUNCTIONS))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--fields", action="store_true", help="fields with honest rewrites instead")
    parser.add_argument(
        "--program", action="append", default=[], metavar="LABEL=PYTHON", help="default: this one"
    )
    parser.add_argument("--file", type=Path, help="lines of what is done are appended and not made again")
    parser.add_argument("--options", default="", help="more options for the tool, in one word")
    options = parser.parse_args()
    programs = [p.partition("=")[::2] for p in options.program] or [("this", sys.executable)]
    print(machine(), flush=True)
    kept = (
        options.file.read_text(encoding="utf-8").splitlines()
        if options.file and options.file.exists()
        else []
    )
    lines = [json.loads(line) for line in kept]
    done = {(line["program"], line["function"], line["class"] == "field") for line in lines}
    with tempfile.TemporaryDirectory(prefix="gamed-") as name:
        for function in map(FUNCTIONS.__getitem__, options.functions):
            wanted = [p for p in programs if (p[0], function.name, options.fields) not in done]
            if not wanted or (options.fields and not function.honest):
                continue
            prepared = prepare(function.workload, Path(name))
            found = recorded(function, prepared)
            for label, program in wanted:
                if options.fields:
                    made = [field(function, prepared, found, label, program, options.options.split())]
                else:
                    made = measure(
                        function, prepared, found, label, program, options.kinds, options.options.split()
                    )
                lines += made
                print(
                    f"{label} {function.name}: "
                    + ", ".join(f"{n} {c}" for n, c in Counter(line["outcome"] for line in made).items()),
                    flush=True,
                )
                if options.file:
                    with options.file.open("a", encoding="utf-8") as file:
                        file.writelines(json.dumps(line) + "\n" for line in made)
    status = report(lines)
    print(f"load {os.getloadavg()[0]:.2f}")
    return status


if __name__ == "__main__":
    sys.exit(main())
