"""Tournaments of some thirty nodes, each in two or three strong parts: who can reach whom."""

from __future__ import annotations

import random

import networkx as nx
from networkx.algorithms.tournament import is_reachable


def tournament(nodes: int, parts: int, seed: int) -> nx.DiGraph:
    """Return a random tournament; edges between two parts lead to the later one."""
    generator = random.Random(seed)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(nodes))
    for u in range(nodes):
        for v in range(u + 1, nodes):
            forward = u * parts // nodes < v * parts // nodes or generator.random() < 0.5
            graph.add_edge(*((u, v) if forward else (v, u)))
    return graph


GRAPHS = [tournament(nodes, parts, nodes) for nodes, parts in ((24, 1), (28, 2), (33, 3))]


def main() -> list[bool]:
    found = []
    for graph in GRAPHS:
        last = len(graph) - 1
        found += [is_reachable(graph, s, t) for s, t in ((0, last), (last, 0), (last // 2, 1))]
    return found
