"""All shortest paths between corners of grids, and along a long path, from predecessors found before."""

from __future__ import annotations

import networkx as nx
from networkx.algorithms.shortest_paths.generic import _build_paths_from_predecessors


def _question(graph, source, target):
    return {source}, target, nx.predecessor(graph, source)


QUESTIONS = [
    _question(nx.grid_2d_graph(5, 6), (0, 0), (4, 5)),
    _question(nx.grid_graph((3, 3, 3)), (0, 0, 0), (2, 2, 2)),
    _question(nx.path_graph(150), 0, 149),
    _question(nx.hypercube_graph(5), (0,) * 5, (1,) * 5),
    *(_question(nx.cycle_graph(20), node, (node + 10) % 20) for node in range(20)),
]


def main():
    return [list(_build_paths_from_predecessors(*question)) for question in QUESTIONS]
