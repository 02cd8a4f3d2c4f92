"""How a client gets at a queue: through its daemon, or on its files where there is none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from codeflash_parallel.queue.protocol.socket_path import may_be_served
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.result.errors import EnvironmentFault

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.daemon_connection import DaemonConnection
    from codeflash_parallel.queue.protocol import messages
    from codeflash_parallel.queue.store.store import Store

# `queue submit` answers at once: what is said to a daemon (`messages`, `link`) is imported where there may be
# one, the store where there is none.

#: Makes what a daemon is asked, where there is one.
Asked = Callable[[], "messages.Request"]


class QueueAccess:
    """A queue in a folder, for one client; a context manager."""

    def __init__(self, folder: Path | str, settings: QueueSettings | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._settings = settings or QueueSettings()
        self._stack = ExitStack()
        self._opened: Store | None = None
        self._lock = threading.Lock()  # a store serves one thread at a time
        self._served = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the queue's files, if they were opened. Futures can be asked afterwards all the same."""
        with self._lock:
            self._opened = None
            self._stack.close()

    @property
    def is_served(self) -> bool:
        """Whether the last call was answered by a daemon."""
        return self._served

    # --- by the daemon, or on the files ------------------------------------------------------------------

    def _read(self, request: Asked, directly: Callable[[Store], Any]) -> Any:
        return self._asked(request, lambda: self._directly(directly))

    def _write(self, request: Asked, directly: Callable[[Store], Any]) -> Any:
        return self._asked(request, lambda: self._written(directly))

    def _make(self, request: Asked, directly: Callable[[Store], Any]) -> Any:
        """Change a queue that need not be there yet."""

        def made() -> Any:
            with self._lock:
                self._store()
            return self._written(directly)

        return self._asked(request, made)

    def _asked(self, request: Asked, otherwise: Callable[[], Any]) -> Any:
        """Have something done by the daemon; without one, do it."""
        link = self._link()
        if link is not None:
            # One that went away has done it or not; every call may be made twice.
            with link, suppress(ConnectionError):
                answer = link.ask(request())
                self._served = True
                return answer
        self._served = False
        return otherwise()

    def _link(self) -> DaemonConnection | None:
        if not may_be_served(self.folder):
            return None
        from codeflash_parallel.queue.client.daemon_connection import DaemonConnection

        return DaemonConnection.open(self.folder)

    def _directly(self, act: Callable[[Store], Any]) -> Any:
        from codeflash_parallel.queue.store.database import must_exist

        with self._lock:
            if self._opened is None:
                must_exist(self.folder)
            return act(self._store())

    def _written(self, act: Callable[[Store], Any]) -> Any:
        """Change the queue's files.

        A daemon listens before it looks at them for the first time: it knows then, or is told now.
        """
        done = self._directly(act)
        with suppress(ConnectionError, EnvironmentFault):
            self._asked(_look, lambda: None)
        return done

    def _store(self) -> Store:
        if self._opened is None:
            from codeflash_parallel.queue.store.store import Store

            opening = Store.open(self.folder, self._settings)
            self._opened = self._stack.enter_context(opening)
        return self._opened


def _look() -> messages.Request:
    from codeflash_parallel.queue.protocol import messages

    return messages.StoreChanged()
