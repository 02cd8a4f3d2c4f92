"""Types of workspaces, children and their ends that rooms share, and the protocol of a warm process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from codeflash_parallel.result.isolation_policy import IsolationPolicy
from codeflash_parallel.result.outcome_codes import ExitKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Workspace:
    """A place where the project can be run: a root, an interpreter and an environment.

    Attributes:
        root: copy of the repository's root.
        project: folder inside `root` where pytest is started (`root` itself, or a monorepo's subfolder).
        user_root: the user's own checkout, whose imports must never be seen.
        interpreter: absolute path of the project's Python.
        private: folder of this workspace outside `root`: home, temporary files, pytest's cache, specs.
        environment: the complete environment of every child.
        number: the slot's number, from 1; 0 where no candidate gets it.
        isolation: what its processes may see and do.
        mounted: folder in which its processes see `root` and `private`, the same for all slots; `None`: they
            see them where they lie.
    """

    root: Path
    project: Path
    user_root: Path
    interpreter: Path
    private: Path
    environment: Mapping[str, str] = field(repr=False)
    number: int = 0
    isolation: IsolationPolicy = field(default_factory=IsolationPolicy)
    mounted: Path | None = None

    def seen(self, path: Path) -> Path:
        """Return what a path of `root` or `private` is called by the processes."""
        return self.mounted / path.relative_to(self.root.parent) if self.mounted else path

    def unconfined(self) -> Workspace:
        """Return it without isolation."""
        old, new = str(self.seen(self.private)), str(self.private)
        environment = {name: text.replace(old, new) for name, text in self.environment.items()}
        return replace(self, environment=environment, isolation=IsolationPolicy(), mounted=None)


#: Receives a piece of a child's records as soon as it has arrived. It must return quickly.
Watch = Callable[[bytes], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """Limits of one child and its descendants.

    Attributes:
        cpu_s: CPU seconds of the whole tree; 0: no limit.
        wall_s: wall seconds; every child has one.
        memory_bytes: resident memory of the whole tree; 0: no limit.
        output_bytes: how much of stdout and stderr is kept (head and tail), each.
        record_bytes: how much the record channel may carry.
    """

    wall_s: float
    cpu_s: float = 0.0
    memory_bytes: int = 0
    output_bytes: int = 256 * 1024
    record_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessExit:
    """End of a child, from the launcher's own clocks and the kernel's accounting.

    Attributes:
        status: exit status, or minus the signal number.
        cpu_ns: user and system time of the child and of the descendants it reaped (`wait4`).
        wall_ns: from spawn to reaping.
        max_rss_bytes: largest resident size of one process.
        leaked: survivors of the main process that had to be killed, as ``"pid name"``.
        unkillable: survivors that could not be killed.
        stdout, stderr: decoded, head and tail.
        records: what came over the record channel, raw bytes.
    """

    ended: ExitKind
    status: int = 0
    cpu_ns: int = 0
    wall_ns: int = 0
    max_rss_bytes: int = 0
    leaked: tuple[str, ...] = ()
    unkillable: tuple[str, ...] = ()
    stdout: str = ""
    stderr: str = ""
    records: bytes = field(default=b"", repr=False)
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildCommand:
    """A child to be started by the launcher.

    Attributes:
        argv: program (absolute path) and arguments. ``{records}`` and ``{control}`` in an argument are
            replaced by the numbers of the descriptors that the child inherits.
        cwd: working directory.
        environment: complete environment.
        watch: receives its records as they arrive.
    """

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(repr=False)
    limits: ProcessLimits
    watch: Watch | None = field(default=None, repr=False, compare=False)


class ChannelClosed(Exception):  # noqa: N818 - a state, not an error of ours
    """The other end of a channel is gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateReady:
    """The first message of a template, at its point.

    Attributes:
        point: the fork point: `imported` or `collected`.
        unfit: why it cannot be forked, in one clause; empty if it can.
        rss_bytes: its resident memory.
    """

    point: str
    unfit: str = ""
    rss_bytes: int = 0


class WarmProcess(Protocol):
    """A warm runner that is forked for each check; implemented by `warm.warm_server.WarmServer`."""

    @property
    def ready(self) -> TemplateReady:
        """Record that the template sent when its point was reached."""
        ...

    @property
    def forks(self) -> int:
        """Number of checks that it has been forked for."""
        ...

    async def run(self, spec_path: Path, limits: ProcessLimits, /) -> ProcessExit:
        """Run one check in a fork.

        Cancelling kills the fork's whole tree before the cancellation goes on; the server stays usable.

        Raises:
            ServerGone: the template has died or does not answer. The check has not begun, or was killed in
                its first steps: the launcher lets it go on before we hear of it.
        """
        ...

    def rss_bytes(self) -> int:
        """Return the template's resident memory now, 0 when it is gone."""
        ...


class ServerGone(Exception):  # noqa: N818 - a state, not an error of ours
    """A template has died, does not answer or refuses: a new process has to do it.

    Attributes:
        exit: how the template ended, with its last records; `None` if it was not started at all.
    """

    def __init__(self, message: str, exit_: ProcessExit | None = None) -> None:
        super().__init__(message)
        self.exit = exit_
