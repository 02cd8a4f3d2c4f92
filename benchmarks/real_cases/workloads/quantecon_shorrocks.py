"""Mobility matrices of three to thirty classes, most of them small."""

from __future__ import annotations

import numpy as np
from quantecon import shorrocks_index

RANDOM = np.random.default_rng(5)
MATRICES = [
    rows / rows.sum(axis=1, keepdims=True)
    for size in (3, 4, 5, 5, 7, 8, 8, 10, 20, 30)
    for rows in RANDOM.random((20, size, size))
]


def main() -> list[float]:
    return [float(shorrocks_index(matrix)) for matrix in MATRICES]
