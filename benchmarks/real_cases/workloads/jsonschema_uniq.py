"""Arrays as documents have them: names, numbers, objects, pairs, and a few with a duplicate at the end."""

from __future__ import annotations

from jsonschema._utils import uniq

NAMES = [f"name-{n * 7919 % 200}" for n in range(200)]
NUMBERS = [n * 31 % 101 for n in range(100)]
POINTS = [[n % 12, n // 12] for n in range(96)]
PEOPLE = [{"id": n, "name": f"person {n}", "tags": ["a", "b"], "active": n % 2 == 0} for n in range(40)]
MIXED = [None, True, 1, "1", 2.5, [1], [True], {"a": 1}, {"a": True}, "text"]
ARRAYS = [NAMES, NUMBERS, POINTS, PEOPLE, MIXED, ["left", "right"], [1, 2, 3]]
ARRAYS += [[*NAMES, "name-0"], [*POINTS, [0, 0]], [*PEOPLE, dict(reversed(PEOPLE[3].items()))]]


def main() -> list[bool]:
    return [uniq(array) for array in ARRAYS]
