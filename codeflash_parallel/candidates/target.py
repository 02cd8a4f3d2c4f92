from __future__ import annotations

from pathlib import PurePosixPath
from typing import NamedTuple

from codeflash_parallel.result.errors import UsageError


class Target(NamedTuple):
    """A function that is being optimized.

    Attributes:
        path: file, POSIX, relative to the root of the repository.
        qualname: dotted name inside the module, e.g. ``"Class.method"``.
    """

    path: str
    qualname: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``src/pkg/mod.py::Class.method`` (``Class::method`` is understood, too).

        Raises:
            UsageError: `BAD_FUNCTION` when the text is not of that form.
        """
        path, separator, name = text.partition("::")
        qualname = name.replace("::", ".")
        parts = PurePosixPath(path).parts
        good_path = path.endswith(".py") and not path.startswith("/") and ".." not in parts
        if not separator or not good_path or not all(p.isidentifier() for p in qualname.split(".")):
            raise UsageError(
                "BAD_FUNCTION",
                f"--function {text!r} is not of the form path/in/repo.py::Class.method.",
                "Give a path relative to the repository and a dotted name, e.g. src/pkg/mod.py::Shape.area.",
            )
        return cls(path=str(PurePosixPath(path)), qualname=qualname)

    @property
    def name(self) -> str:
        """The last part of the dotted name."""
        return self.qualname.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.path}::{self.qualname}"
