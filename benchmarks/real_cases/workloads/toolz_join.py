"""Orders and their customers: all that match, then with those that lack one side, then with those of both."""

from __future__ import annotations

from toolz import join

CUSTOMERS = [(number, f"customer {number}", number % 7) for number in range(300)]
ORDERS = [(f"order {number}", number * 13 % 400, number / 4) for number in range(900)]


def _customer(order):
    return order[1]


def main():
    return [
        list(join(0, CUSTOMERS, 1, ORDERS)),
        list(join(0, CUSTOMERS, _customer, ORDERS, left_default=None)),
        list(join(0, CUSTOMERS, 1, ORDERS[:200], right_default=None)),
        list(join(0, CUSTOMERS, 1, ORDERS[:200], left_default=(), right_default=())),
    ]
