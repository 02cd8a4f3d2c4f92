"""How much of what is random or simulated is done."""

from __future__ import annotations

import os

from hypothesis import settings

#: The gate does it once; `nox -s campaign -- --times N` does N times as much of it.
TIMES = int(os.environ.get("CODEFLASH_PARALLEL_TIMES", "1"))

#: Examples of each test in the profile `few`.
FEW = 10


def drawn(examples: int) -> int:
    """Return how many examples a test draws that names a number of its own: as few as all, where few are asked for."""
    return min(examples, FEW) if settings.default.max_examples == FEW else examples
