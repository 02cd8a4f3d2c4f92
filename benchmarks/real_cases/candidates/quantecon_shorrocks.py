"""Candidates of `quantecon_shorrocks`: a mobility index, from the sum of a matrix's diagonal."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "quantecon/_inequality.py"
DIAGONAL = "np.diag(A).sum()"
CHECK = """\
    if m != n:
        raise ValueError('A must be a square matrix')

    diag_sum = np.diag(A).sum()
"""


def _sum(expression: str) -> Callable[[Sources], dict[str, str]]:
    """Sum the diagonal in another way."""
    return lambda sources: {PATH: substitute(sources.base(PATH), DIAGONAL, expression)}


def _no_square_check(sources: Sources) -> dict[str, str]:
    return {PATH: substitute(sources.base(PATH), CHECK, "    diag_sum = A.trace()\n")}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_trace": lambda sources: sources.upstream(0),
    "diagonal_sum": _sum("A.diagonal().sum()"),
    "method_trace": _sum("A.trace()"),
    # Sums booleans and small integers in their own type: transition probabilities are neither.
    "einsum": _sum("np.einsum('ii', A)"),
    "anti_diagonal": _sum("np.fliplr(A).diagonal().sum()"),
    "no_square_check": _no_square_check,
    "python_loop": _sum("sum([A[i, i] for i in range(m)])"),
    # Its trace, not its sum: the zeros would be added in another order.
    "full_diag_matrix": _sum("np.diag(np.diag(A)).trace()"),
}
