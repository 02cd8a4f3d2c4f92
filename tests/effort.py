"""How much of what is random or simulated is done."""

from __future__ import annotations

import os

#: The gate does it once; `nox -s campaign -- --times N` does N times as much of it.
TIMES = int(os.environ.get("CODEFLASH_PARALLEL_TIMES", "1"))
