"""Hashes of queries whose nodes have none yet, as the optimizer's comparisons need them.

A hash differs from process to process: what is returned is which queries are equal.
"""

from __future__ import annotations

from sqlglot import parse_one

TOTALS = "SELECT a, b, {} AS total FROM orders WHERE d > 10 AND e IN (1, 2, 3) GROUP BY a, b ORDER BY total"
QUERIES = (
    TOTALS.format("SUM(c)"),
    TOTALS.format("sum(C)"),
    "WITH t AS (SELECT x, RANK() OVER (PARTITION BY y ORDER BY z) AS n FROM s) SELECT * FROM t WHERE n = 1",
    "SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id WHERE c.area = 'EU'",
    "SELECT CASE WHEN a = 1 THEN 'one' WHEN a = 2 THEN 'two' ELSE CAST(a AS VARCHAR) END AS label FROM t",
    "SELECT " + ", ".join(f"COALESCE(c{at}, {at}) AS c{at}" for at in range(30)) + " FROM wide",
)
TREES = [parse_one(query) for query in QUERIES]
NODES = [node for tree in TREES for node in tree.walk()]


def main() -> list[bool]:
    """Return which queries have equal hashes; the nodes' own are forgotten first."""
    for node in NODES:
        node._hash = None  # noqa: SLF001
    hashes = [hash(tree) for tree in TREES]
    return [one == other for one in hashes for other in hashes]
