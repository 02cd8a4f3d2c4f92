"""Candidates of `networkx_build_paths`: all simple paths to a target, from lists of predecessors."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_body, replace_function, substitute

PATH = "networkx/algorithms/shortest_paths/generic.py"
NAME = "_build_paths_from_predecessors"

#: What every body begins with.
UNREACHABLE = """\
if target not in pred:
    raise nx.NetworkXNoPath(f"Target {target} cannot be reached from given sources")

"""


def _upstream(number: int) -> Callable[[Sources], dict[str, str]]:
    """Take upstream's function alone: the commits between changed other parts of the file."""

    def texts(sources: Sources) -> dict[str, str]:
        merged = function_source(sources.upstream(number)[PATH], NAME)
        return {PATH: replace_function(sources.base(PATH), NAME, merged)}

    return texts


def _body(body: str) -> Callable[[Sources], dict[str, str]]:
    """Give the target another body, under its docstring."""
    return lambda sources: {PATH: replace_body(sources.base(PATH), NAME, UNREACHABLE + body.lstrip("\n"))}


def _line(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    """Change a line of the target."""
    return lambda sources: {PATH: substitute(sources.base(PATH), old, new)}


YIELD = "yield [p for p, n in reversed(stack[: top + 1])]"

# The baseline looks at a source again after each of its predecessors, seen or not: so does this.
RECURSIVE = """
def paths_through(node, beyond):
    path = [node, *beyond]
    if node in sources:
        yield path[:]
    for previous in pred[node]:
        if previous not in path:
            yield from paths_through(previous, path)
        if node in sources:
            yield path[:]

yield from paths_through(target, [])
"""

NO_SEEN_SET = """
path = [target]
remaining = [iter(pred[target])]
while remaining:
    node = path[-1]
    if node in sources:
        yield path[::-1]
    for previous in remaining[-1]:
        path.append(previous)
        remaining.append(iter(pred[previous]))
        break
    else:
        remaining.pop()
        path.pop()
"""

STOP_AT_SOURCE = """
path = [target]
seen = {target}
remaining = [iter(pred[target])]
while remaining:
    node = path[-1]
    if node in sources:
        yield path[::-1]
        beyond = ()
    else:
        beyond = remaining[-1]
    for previous in beyond:
        if previous in seen:
            continue
        seen.add(previous)
        path.append(previous)
        remaining.append(iter(pred[previous]))
        break
    else:
        seen.discard(node)
        remaining.pop()
        path.pop()
"""

SHARED_LIST = """
path = [target]
found = []
seen = {target}
remaining = [iter(pred[target])]
while remaining:
    node = path[-1]
    if node in sources:
        found[:] = path[::-1]
        yield found
    for previous in remaining[-1]:
        if previous in seen:
            continue
        seen.add(previous)
        path.append(previous)
        remaining.append(iter(pred[previous]))
        break
    else:
        seen.discard(node)
        remaining.pop()
        path.pop()
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_v1": _upstream(0),
    "upstream_v2": _upstream(1),
    "recursive": _body(RECURSIVE),
    "no_seen_set": _body(NO_SEEN_SET),
    "path_not_reversed": _line(YIELD, "yield [p for p, n in stack[: top + 1]]"),
    "stop_at_source": _body(STOP_AT_SOURCE),
    "shared_list": _body(SHARED_LIST),
    "seen_rebuilt": _line(
        "            if next in seen:\n",
        "            seen = {p for p, n in stack[: top + 1]}\n            if next in seen:\n",
    ),
}
