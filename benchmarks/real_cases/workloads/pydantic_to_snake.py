"""Names as an API with camel case has them: keys, classes, headers, and some in snake case already."""

from __future__ import annotations

from pydantic.alias_generators import to_snake

NOUNS = ("user", "billing", "shipping", "account", "invoice", "HTTP", "api", "OAuth2", "line1", "geo")
PARTS = ("Address", "Id", "CreatedAt", "URL", "Status2", "IsActive", "TotalAmountUSD", "")
NAMES = [
    *(noun + part for noun in NOUNS for part in PARTS),
    *(f"{noun}-{part}" for noun in NOUNS for part in PARTS),
    *(
        "content-type",
        "X-Request-ID",
        "already_in_snake_case",
        "_privateField",
        "SHA256Digest",
        "getHTTPResponseCode",
    ),
]


def main() -> list[str]:
    """Return the names in snake case."""
    return [to_snake(name) for name in NAMES]
