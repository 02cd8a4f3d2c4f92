"""Candidates of `networkx_is_reachable`: is there a path between two nodes of a tournament."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_body, replace_function, substitute

PATH = "networkx/algorithms/tournament.py"
NAME = "is_reachable"
LAST = """\
    neighborhoods = [two_neighborhood(G, v) for v in G]
    return all(not (is_closed(G, S) and s in S and t not in S) for S in neighborhoods)
"""
LAZY = """\
    neighborhoods = (two_neighborhood(G, v) for v in G)
    return not any(s in S and t not in S and is_closed(G, S) for S in neighborhoods)
"""
CHOICE = "x for x in G if x == v or x in G[v] or any(is_path(G, [v, z, x]) for z in G)"
PATHS_FIRST = "x for x in G if any(is_path(G, [v, z, x]) for z in G) or x == v or x in G[v]"


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), NAME, new)}


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    def changed(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        function = substitute(function_source(text, NAME), old, new)
        return {PATH: replace_function(text, NAME, function)}

    return changed


def _renamed(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    function = function_source(text, NAME).replace("neighborhoods", "reached_from")
    function = function.replace("two_neighborhood", "within_two").replace("is_closed", "has_no_exit")
    return {PATH: replace_function(text, NAME, function)}


UNION_OF_SETS = """\
    successors = {v: set(G._adj[v]) for v in G}
    for v, after in successors.items():
        S = {v}.union(after, *(successors[z] for z in after))
        if s in S and t not in S and all(u in S or S <= successors[u] for u in successors):
            return False
    return True
"""

ONLY_WITH_S = """\
    adjacency, predecessors = G._adj, G._pred
    if s not in adjacency:
        return True
    for v in {s, *predecessors[s]}.union(*(predecessors[z] for z in predecessors[s])):
        S = {v, *adjacency[v]}
        for z in adjacency[v]:
            S.update(adjacency[z])
        if t in S:
            continue
        outside = (adjacency[u] for u in adjacency if u not in S)
        if all(x in after for after in outside for x in S):
            return False
    return True
"""

BREADTH_FIRST = """\
    if s not in G or s == t:
        return True
    seen, level = {s}, [s]
    while level:
        if t in seen:
            return True
        level = [w for v in level for w in G._adj[v] if w not in seen and not seen.add(w)]
    return False
"""

DISTANCE_TWO = """\
    if s not in G or s == t:
        return True
    after = G._adj[s]
    return t in after or any(t in G._adj[z] for z in after)
"""

ONE_NEIGHBORHOOD = """\
    def neighborhood(G, v):
        return {v, *G[v]}

    def is_closed(G, nodes):
        return all(v in G[u] for u in set(G) - nodes for v in nodes)

    neighborhoods = (neighborhood(G, v) for v in G)
    return not any(s in S and t not in S and is_closed(G, S) for S in neighborhoods)
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "lazy_last_line": _change(LAST, LAZY),
    "union_of_sets": _body(UNION_OF_SETS),
    "only_with_s": _body(ONLY_WITH_S),
    "breadth_first": _body(BREADTH_FIRST),
    "distance_two": _body(DISTANCE_TWO),
    "one_neighborhood": _body(ONE_NEIGHBORHOOD),
    "swapped": _change("s in S and t not in S", "t in S and s not in S"),
    "paths_first": _change(CHOICE, PATHS_FIRST),
    "renamed": _renamed,
}
