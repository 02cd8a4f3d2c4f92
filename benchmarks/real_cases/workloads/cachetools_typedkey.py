"""Keys of calls as caches are asked for them: some positional arguments, now and then keywords."""

from __future__ import annotations

from cachetools.keys import typedkey


def main() -> list[object]:
    keys: list[object] = []
    for number in range(50):
        keys.append(typedkey(number))
        keys.append(typedkey("user", number, 2.5))
        keys.append(typedkey("page", number, size=20, order="name"))
    return keys
