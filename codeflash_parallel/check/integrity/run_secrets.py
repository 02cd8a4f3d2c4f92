"""What a run is told apart from its spec: the key of its seal and its canaries; and what came of both."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from codeflash_parallel.check.integrity.canaries import Canary
from codeflash_parallel.result.runtime_protocols import Workspace

#: Bytes of the key of a seal, and of the seal itself.
_KEY_BYTES, _SEAL_BYTES = 32, 16


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSecrets:
    """The secrets of one run."""

    key: bytes = b""
    canaries: tuple[Canary, ...] = ()


def arm(
    workspace: Workspace, spec: Mapping[str, Any], canaries: Sequence[Canary]
) -> tuple[dict[str, Any], RunSecrets]:
    """Write the secrets of one run where its guest takes them away; return the spec that names them.

    The ids of canaries stand among the others in the spec, as those of any test that is to be run.
    """
    arms = RunSecrets(key=secrets.token_bytes(_KEY_BYTES), canaries=tuple(canaries))
    told = {"key": arms.key.hex(), "canaries": [canary.order for canary in canaries]}
    path = workspace.private / secrets.token_hex(8)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
        file.write(json.dumps(told).encode())
    lists = {name: _with(spec[name], canaries) for name in ("select", "order") if spec.get(name)}
    return {**spec, **lists, "secret": str(path)}, arms


def _with(tests: Sequence[str], canaries: Sequence[Canary]) -> list[str]:
    """Put canaries behind the tests that they follow."""
    by_test: dict[str, list[str]] = {}
    for canary in canaries:
        by_test.setdefault(canary.after, []).insert(0, canary.id)
    return [one for test in tests for one in (test, *by_test.get(test, ()))]


def broken_seal(records: bytes, key: bytes) -> bool:
    """Say whether the records of a run that claims to have come to its end are not its guest's alone.

    The end record comes last, and holds a keyed digest of all bytes before it, which the guest's channel
    made as it wrote them.
    """
    start = records.rstrip(b"\n").rfind(b"\n") + 1
    seal = ""
    with suppress(ValueError, AttributeError):
        last = json.loads(records[start:])
        seal = str(last.get("seal", "")) if last.get("t") == "end" else ""
    return seal != hashlib.blake2b(records[:start], key=key, digest_size=_SEAL_BYTES).hexdigest()
