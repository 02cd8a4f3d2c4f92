"""Entry of the launcher process: ``python -I -S -X utf8 supervisor_main.py <socket fd> <evaluator's pid>``.

Isolated and without site-packages it starts in a few milliseconds, stays small (a small process forks fast)
and is the same whatever the user's environment says. It imports the launcher's half of this package, which
needs the standard library only.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import traceback


def main(descriptor: int, parent: int) -> None:
    """Serve; tell the evaluator about a defect of ours before dying of it."""
    package_root = os.path.abspath(f"{__file__}/../../../..")  # noqa: PTH100 - pathlib doubles the start
    sys.path.append(package_root)  # at the end: nothing there may hide the standard library
    try:
        from codeflash_parallel.process.supervisor.supervisor_loop import serve

        serve(descriptor, parent)
    except BaseException:
        body = json.dumps({"t": "fault", "message": traceback.format_exc()[-4000:]}).encode()
        os.write(descriptor, struct.pack("!I", len(body)) + body)
        raise


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
