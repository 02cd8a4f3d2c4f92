"""Colours of what is printed for people, as the command line asks for them. Light."""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum


class ColorMode(StrEnum):
    """Use of colours."""

    #: On a terminal, unless NO_COLOR is set; FORCE_COLOR: everywhere.
    AUTO = "auto"
    #: Everywhere, in files and pipes, too.
    ALWAYS = "always"
    #: Nowhere.
    NEVER = "never"


#: The choice for the command that runs.
COLOR: ContextVar[ColorMode] = ContextVar("color", default=ColorMode.AUTO)
