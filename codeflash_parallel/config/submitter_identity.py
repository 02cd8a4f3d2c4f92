"""Who hands jobs in, and for which run: one rule, for the command line and the library."""

from __future__ import annotations

import os
from collections.abc import Mapping

from codeflash_parallel.result.errors import UsageError

#: Names the submitter, for those who are several under one user.
SUBMITTER = "CODEFLASH_PARALLEL_SUBMITTER"
#: Names the run that several submitters are part of.
RUN_OF = "CODEFLASH_PARALLEL_RUN_OF"

#: Longest name of a submitter or run: it stands in tables and labels.
MAX_NAME = 64


def why_not_name(text: str) -> str:
    """Return why a submitter or run cannot have a name, one clause; empty when it can, or has none."""
    fits = text.isprintable() and len(text) <= MAX_NAME
    return "" if fits else f"must be 1 to {MAX_NAME} printable characters, not {text!r}"


def submitter_of(given: str, environment: Mapping[str, str]) -> str:
    """Return who hands in: who is given, else whom the variable names, else the user.

    The user alone, not the terminal: a command whose streams are redirected has none, and who comes back at
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
