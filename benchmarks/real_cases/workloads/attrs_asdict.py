"""Orders with lines and addresses, as an application hands them to a JSON encoder."""

from __future__ import annotations

from typing import Any

import attr


@attr.s(auto_attribs=True)
class Address:
    street: str
    city: str
    code: int | None = None


@attr.s(auto_attribs=True)
class Line:
    article: str
    count: int
    price: float
    tags: list[str]


@attr.s(auto_attribs=True)
class Order:
    number: int
    paid: bool
    to: Address
    lines: list[Line]
    notes: dict[str, Any]


ORDERS = [
    Order(
        number=number,
        paid=number % 2 == 0,
        to=Address(f"street {number}", "Somewhere", number or None),
        lines=[Line(f"article {line}", line, line / 4, ["a", "b"]) for line in range(number % 6)],
        notes={"weights": (1, 2.5, number), "by": {"hand": None, "post": b"1"}},
    )
    for number in range(40)
]


def main() -> list[dict[str, Any]]:
    return [attr.asdict(order) for order in ORDERS]
