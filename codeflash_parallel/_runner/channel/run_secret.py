"""What the evaluator tells one run apart from its spec: the key of its seal, and its canaries.

It lies in a file of its own that is read and removed before any code of a candidate runs: the spec stays
where it is for the processes that tests start, and says nothing.
"""

import contextlib
import json
import os


def take(spec):
    """Read and remove the file that a spec names, if it names one, and return the key in it.

    The spec in memory then holds the canaries, as "canaries".

    Raises:
        OSError, ValueError: there is no such file, or something else is in it.
    """
    path = spec.pop("secret", "")
    if not path:
        return b""
    with open(path, "rb") as file:
        told = json.loads(file.read())
    with contextlib.suppress(OSError):  # it goes with the private folder
        os.unlink(path)
    spec["canaries"] = told["canaries"]
    return bytes.fromhex(told["key"])
