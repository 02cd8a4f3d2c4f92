"""Where a daemon listens, and whether one may. Light: whoever hands in asks before anything is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: Name of the socket in the queue's folder.
SOCKET_NAME: Final = "daemon.socket"


def may_be_served(folder: Path) -> bool:
    """Say whether there may be a daemon: there is a socket, or it cannot be seen whether there is one."""
    try:
        os.lstat(folder / SOCKET_NAME)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
