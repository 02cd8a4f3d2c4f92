"""The user's folders (configuration, cache, queue), and the user's name as a submitter of jobs. Light."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Names the submitter, where several share one user.
SUBMITTER = "CODEFLASH_PARALLEL_SUBMITTER"
#: Names the run that several submitters are part of.
RUN_OF = "CODEFLASH_PARALLEL_RUN_OF"

#: Longest name of a submitter or run: it stands in tables and labels.
MAX_NAME = 64


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


def why_not_name(text: str) -> str:
    """Return why a submitter or run cannot have a name, one clause; empty when it can, or has none."""
    fits = text.isprintable() and len(text) <= MAX_NAME
    return "" if fits else f"must be 1 to {MAX_NAME} printable characters, not {text!r}"


def submitter_of(given: str, environment: Mapping[str, str]) -> str:
    """Return the submitter: the given one, else the variable's, else the user.

    The user alone, not the terminal: a command whose streams are redirected has none, and a user at
    another one would not find its jobs.

    Raises:
        UsageError: `BAD_SETTING`: it is no name.
    """
    return _named("submitter", given) or _named(SUBMITTER, environment.get(SUBMITTER, "")) or _user()


def run_of(given: str, environment: Mapping[str, str]) -> str:
    """Return the run that jobs belong to: the one given, else the variable's; empty: none.

    Raises:
        UsageError: `BAD_SETTING`: it is no name.
    """
    return _named("run", given) or _named(RUN_OF, environment.get(RUN_OF, ""))


def _named(what: str, text: str) -> str:
    if why := why_not_name(text):
        raise UsageError("BAD_SETTING", f"{what} {why}.")
    return text


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user that has no name
        return f"uid{os.getuid()}"
