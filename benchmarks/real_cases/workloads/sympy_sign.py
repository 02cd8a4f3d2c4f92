"""Signs of products of factors that were not seen before, as simplification meets them."""

from __future__ import annotations

from sympy import Dummy, I, Mul, exp, sign, sqrt


def _products():
    """Return products of new symbols: what was asked about others helps with none of them."""
    a, b, c = (Dummy(name) for name in "abc")
    real, positive, imaginary = (Dummy(**{name: True}) for name in ("real", "positive", "imaginary"))
    return (
        Mul(-2, a + 1, b, exp(c)),
        Mul(real, positive, a + b),
        Mul(3, sqrt(a), imaginary),
        Mul(I, a**2 + b, positive),
        Mul(-1, a + I * b, real - 1, c),
    )


def main() -> list[list[str]]:
    signs = [sign(product) for _ in range(3) for product in _products()]
    return [[each.func.__name__ for each in (result, *result.args)] for result in signs]
