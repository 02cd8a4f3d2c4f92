"""A stored document as a result again, for `show`, `apply` and everything else that looks back."""

from __future__ import annotations

from codeflash_parallel.engine.stored import stored_result

__all__ = ["stored_result"]
