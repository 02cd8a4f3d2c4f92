"""Where things of ours lie on the user's disk. Light: every command asks."""

from __future__ import annotations

import os
from pathlib import Path

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import EnvironmentFault


def cache_root(settings: Settings) -> Path:
    """Return where mirrors, slots and results are kept: the setting, or the user's cache directory.

    Raises:
        EnvironmentFault: `NO_CACHE`, the user has no home and names no cache.
    """
    try:
        if settings.cache_dir:
            path = Path(settings.cache_dir).expanduser().absolute()
            return path.resolve() if ".." in path.parts else path  # what is not there cannot be left again
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # there is no home
        hint = "Name a folder with --cache-dir, or set HOME."
        raise EnvironmentFault("NO_CACHE", f"There is no place for a cache: {error}", hint) from error
    return base / "codeflash-parallel"


def queue_folder(settings: Settings) -> Path:
    """Return where the evaluation queue is kept: the setting, or a folder of the cache.

    Raises:
        EnvironmentFault: `NO_CACHE`, as `cache_root`.
    """
    if settings.queue_dir:
        return Path(settings.queue_dir).expanduser().absolute()
    return cache_root(settings) / "queue"
