"""JSON text as we write it. Light: answers of the queue are made of it, too."""

from __future__ import annotations

import json
from typing import Any


def dumps(data: Any) -> str:
    """Return JSON text, ASCII only: what others wrote cannot act on a terminal in this form, either."""
    return json.dumps(data, indent=2, allow_nan=False)


def line(data: Any) -> str:
    """Return JSON text as `dumps` does, on one line."""
    return json.dumps(data, allow_nan=False)
