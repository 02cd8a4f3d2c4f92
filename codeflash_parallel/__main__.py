"""`python -m codeflash_parallel` is the command line."""

from __future__ import annotations

import sys

from codeflash_parallel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
