"""Isolation levels, and the policy that keeps candidates apart from the machine and from each other.

Pure. Each level is described in docs/explanation/isolation.md; `_runner.sandbox.confinement` does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from codeflash_parallel.result.codec import to_plain


class IsolationLevel(StrEnum):
    """Levels, from the least to the most; each stops what those before it stop."""

    #: Resource limits, an own session, a subreaper.
    NONE = "none"
    #: Landlock and no new privileges besides. Works inside containers.
    LANDLOCK = "landlock"
    #: Namespaces of users, processes, network, mounts and IPC besides.
    SANDBOX = "sandbox"

    @property
    def has_process_namespace(self) -> bool:
        """True where all processes of a check end with it."""
        return self is IsolationLevel.SANDBOX

    def stops_less_than(self, other: IsolationLevel) -> bool:
        """Say whether this level comes before another one."""
        order = tuple(IsolationLevel)
        return order.index(self) < order.index(other)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerLimits:
    """Limits of one process, besides those that the launcher counts for the whole tree; 0: no limit.

    Attributes:
        file_bytes: size of a file that it writes.
        open_files: descriptors.
        processes: processes and threads of the check together; at `sandbox`, and not for root, where the
            kernel has no such limit.
        data_bytes: private memory, as it is asked for: a backstop behind the memory limit of the tree.
        disk_bytes: of all files outside the slot's tree together; at `sandbox`, where they are in memory.
    """

    file_bytes: int = 0
    open_files: int = 0
    processes: int = 0
    data_bytes: int = 0
    disk_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class IsolationPolicy:
    """Rights of the processes of a workspace.

    Attributes:
        network: whether they may use the machine's network.
        writable: paths outside the slot that they may write to.
        hidden: real paths that they must not read: the user's checkout and his secrets.
        cache: our own cache, hidden from checks but for what is theirs.
    """

    level: IsolationLevel = IsolationLevel.NONE
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    cache: str = ""
    limits: RunnerLimits = field(default_factory=RunnerLimits)

    @property
    def is_closed(self) -> bool:
        """Whether nothing outside of a slot can be reached, so that all slots may be seen at one path."""
        return self.level is IsolationLevel.SANDBOX and not (self.network or self.writable)

    def as_spec(self) -> dict[str, Any]:
        """Return it as it goes into a runner's spec."""
        plain: dict[str, Any] = to_plain(self)
        return plain


@dataclass(frozen=True, kw_only=True, slots=True)
class IsolationProbe:
    """Result of trying a level.

    Attributes:
        why_not: why it does not work here, in one line; empty: it does.
        note: what it cannot do here although it works, in one line.
    """

    level: IsolationLevel
    why_not: str = ""
    note: str = ""


#: What a red baseline that is green at `none` can be granted, by what its failures say.
_RIGHTS: Mapping[str, tuple[str, ...]] = {
    "--allow-network": (
        "Network is unreachable",
        "Name or service not known",
        "Temporary failure in name resolution",
        "Connection refused",
        "ConnectionError",
        "ConnectionRefusedError",
        "Max retries exceeded",
    ),
    "--allow-write PATH": ("Read-only file system", "Permission denied", "PermissionError", "No space left"),
    "--pass-env NAME": ("KeyError", "environ"),
}


#: What a red baseline can be given more of, by what its failures say: limits hold at `none`, too.
_GIVE_MORE: Mapping[str, tuple[str, ...]] = {
    "--memory-limit": ("MemoryError", "[Errno 12]", "Cannot allocate memory"),
    "--open-files-limit": ("[Errno 24]", "Too many open files"),
    "--processes-limit": ("[Errno 11]", "Resource temporarily unavailable", "can't start new thread"),
    "--file-size-limit": ("[Errno 27]", "File too large"),
}


def reached_limits(words: str) -> tuple[str, ...]:
    """Return the flags of the limits that failures seem to have met, guessed from their words."""
    return tuple(flag for flag, signs in _GIVE_MORE.items() if any(sign in words for sign in signs))


def missing_rights(words: str) -> tuple[str, ...]:
    """Return the flags that would grant what failures ask for, guessed from their words.

    Args:
        words: tracebacks and messages of the tests that fail.
    """
    return tuple(flag for flag, signs in _RIGHTS.items() if any(sign in words for sign in signs))
