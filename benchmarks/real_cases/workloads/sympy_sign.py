"""Signs of products of symbols that were not seen before, as simplification meets them."""

from __future__ import annotations

from sympy import Dummy, I, sign


def main() -> list[str]:
    said = []
    for _ in range(6):
        a, b, c = (Dummy(name) for name in "abc")
        real, positive, imaginary = (Dummy(**{name: True}) for name in ("real", "positive", "imaginary"))
        products = (-2 * a * b * c, real * positive, 3 * a * imaginary, I * a * positive, -a * real * b)
        said += [str(sign(product)) for product in products]
    return said
