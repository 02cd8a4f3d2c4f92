"""Candidates of `dateutil_fix`: parts of a time difference carried over into the next larger unit."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_body, replace_function, substitute

PATH = "src/dateutil/relativedelta.py"
NAME = "relativedelta._fix"
LIMITS = {"microseconds": 999999, "seconds": 59, "minutes": 59, "hours": 23, "months": 11}

LOOP = """\
        for unit, larger, size in (("microseconds", "seconds", 1000000), ("seconds", "minutes", 60),
                                   ("minutes", "hours", 60), ("hours", "days", 24),
                                   ("months", "years", 12)):
            value = getattr(self, unit)
            if abs(value) > size - 1:
                s = _sign(value)
                div, mod = divmod(value * s, size)
                setattr(self, unit, mod * s)
                setattr(self, larger, getattr(self, larger) + div * s)
        relative = any(map(bool, (self.hours, self.minutes, self.seconds, self.microseconds)))
        absolute = (self.hour, self.minute, self.second, self.microsecond)
        self._has_time = 1 if relative or any(part is not None for part in absolute) else 0
"""


def _no_abs(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    function = function_source(text, NAME)
    for unit, limit in LIMITS.items():
        new = f"if self.{unit} > {limit} or self.{unit} < -{limit}:"
        function = substitute(function, f"if abs(self.{unit}) > {limit}:", new)
    return {PATH: replace_function(text, NAME, function)}


def _locals(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    function = function_source(text, NAME)
    for unit, limit in LIMITS.items():
        old = f"    if abs(self.{unit}) > {limit}:\n        s = _sign(self.{unit})\n"
        new = f"    {unit} = self.{unit}\n    if abs({unit}) > {limit}:\n        s = _sign({unit})\n"
        function = substitute(function, old, new)
        function = substitute(function, f"divmod(self.{unit} * s", f"divmod({unit} * s")
    return {PATH: replace_function(text, NAME, function)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "no_abs": _no_abs,
    "locals": _locals,
    "loop": lambda sources: {PATH: replace_body(sources.base(PATH), NAME, LOOP)},
}
