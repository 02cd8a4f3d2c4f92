"""What a slot's user left behind, as it was found when the slot was restored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class SlotResidue:
    """Filled once, when the slot is given back.

    Attributes:
        changed: paths of the snapshot that were changed or removed, staged edits apart.
        added: new paths, bytecode apart.
        mirror: the mirror's own files that somebody changed while the slot was in use.
    """

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    mirror: tuple[str, ...] = ()
