"""Hints by name: ours, or a callable of the user's."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from codeflash_parallel.evalqueue.hints import HINTS, Hint, HintRow
from codeflash_parallel.model.errors import UsageError


def load_hint(name: str) -> Hint | None:
    """Return the hint that the setting `priority_hint` names, `None` for none.

    One of the user's that fails later ranks nobody: the queue goes on.

    Args:
        name: a name of ours, or `module:name`.

    Raises:
        UsageError: `BAD_HINT`, there is no such callable.
    """
    if not name:
        return None
    if name in HINTS:
        return HINTS[name]
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError("BAD_HINT", f"priority_hint {name!r} cannot be loaded: {error}.") from error
    if not callable(found):
        raise UsageError("BAD_HINT", f"priority_hint {name!r} is no callable.")
    return _guarded(found)


def _guarded(hint: Hint) -> Hint:
    def ranked(rows: Sequence[HintRow]) -> Sequence[int]:
        try:
            given = [int(rank) for rank in hint(rows)]
        except Exception:  # noqa: BLE001 - code of the user's must not stop the queue
            given = []
        return given if len(given) == len(rows) else [0] * len(rows)

    return ranked
