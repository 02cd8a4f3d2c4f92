"""Size and order of the code: lines, modules, rooms, names, mirrored tests; with `--minutes` the gate's time.

    python benchmarks/house.py [--names] [--minutes]

Lines of code are those without blank lines, comments and docstrings. A room is a folder of the package.
`--names` lists what counts against a figure; `--minutes` runs `nox -s fast` and the gate, too.
"""

from __future__ import annotations

import argparse
import ast
import io
import os
import subprocess
import sys
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "codeflash_parallel"
#: Tokens that make no line of code.
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE),
    *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER),
}
#: Words that end like a gerund and are nouns.
NOUNS = {"ranking", "reading", "accounting", "recycling", "scoring", "staging"}
MOST_LINES, MOST_MODULES, MOST_IN_A_ROOM, MOST_GATE_MIN, MOST_FAST_S = 25_000, 220, 15, 8, 60


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def docstring_lines(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(getattr(first.value, "value", None), str):
                yield from range(first.lineno, (first.end_lineno or first.lineno) + 1)


def lines_of_code(text: str) -> int:
    """Count the lines of a module without blank lines, comments and docstrings."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    return len(found - set(docstring_lines(ast.parse(text))))


def sizes(paths: Iterable[Path]) -> str:
    texts = [path.read_text(encoding="utf-8") for path in paths]
    code, lines = sum(map(lines_of_code, texts)), sum(len(text.splitlines()) for text in texts)
    return f"{code:,} lines of code in {lines:,}, {len(texts)} files"


def import_cycles() -> list[str]:
    """Find modules that import each other, directly or through others, as groups."""
    graph = grimp.build_graph("codeflash_parallel", exclude_type_checking_imports=True)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[str] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in graph.find_modules_directly_imported_by(module):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                groups.append(", ".join(sorted(group)))

    sys.setrecursionlimit(10_000)
    for module in sorted(graph.modules):
        if module not in index:
            visit(module)
    return groups


def repeated_names(paths: Iterable[Path]) -> list[str]:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    return [f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1]


def without_test(paths: Iterable[Path]) -> list[str]:
    """Name the modules of the package that have no test where the mirror says."""
    found = []
    for path in paths:
        inside = path.relative_to(PACKAGE)
        mirrored = ROOT / "tests/unit" / inside.parent / f"test_{inside.stem}.py"
        if inside.stem not in {"__init__", "__main__"} and not mirrored.exists():
            found.append(str(inside))
    return found


def gerunds(paths: Iterable[Path]) -> list[str]:
    return [
        str(path.relative_to(PACKAGE))
        for path in paths
        if path.stem.endswith("ing") and path.stem.rpartition("_")[2] not in NOUNS
    ]


def seconds_of(*command: str) -> tuple[float, int]:
    start = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
    return time.monotonic() - start, done.returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--names", action="store_true", help="list what counts against a figure")
    parser.add_argument("--minutes", action="store_true", help="run the fast loop and the gate, too")
    options = parser.parse_args()
    package, tests = files_of(PACKAGE), files_of(ROOT / "tests")
    modules = [path for path in package if path.name != "__init__.py"]
    rooms = Counter(str(path.parent.relative_to(ROOT)) for path in modules)
    print(f"package        {sizes(package)} (aim: at most {MOST_LINES:,} lines of code)")
    print(f"modules        {len(modules)} without __init__ (aim: at most {MOST_MODULES})")
    print(f"tests          {sizes(tests)}")
    largest = ", ".join(f"{name} {count}" for name, count in rooms.most_common(3))
    print(f"rooms          {len(rooms)}; largest: {largest} (aim: at most {MOST_IN_A_ROOM})")
    for label, names in (
        ("import cycles", import_cycles()),
        ("repeated public class names", repeated_names(package)),
        ("gerunds as file names", gerunds(modules)),
        ("modules without a mirrored test", without_test(package)),
    ):
        print(f"{len(names):>5}  {label}")
        if options.names:
            print("".join(f"         {name}\n" for name in names), end="")
    if options.minutes:
        fast, fast_status = seconds_of(sys.executable, "-m", "nox", "-s", "fast")
        gate, gate_status = seconds_of(".ci/run")
        print(f"nox -s fast    {fast:.0f} s, exit status {fast_status} (aim: at most {MOST_FAST_S} s)")
        print(f".ci/run        {gate / 60:.1f} min, exit status {gate_status} (aim: at most {MOST_GATE_MIN})")
        print(f"machine        {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
