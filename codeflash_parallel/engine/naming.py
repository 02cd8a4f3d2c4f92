"""Whether a function that is named is there, and what to say when it is not. Pure, and light."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codeflash_parallel.model.errors import UsageError
from codeflash_parallel.model.functions import functions_of, locate
from codeflash_parallel.model.source import parse
from codeflash_parallel.model.target import Target


def must_be_there(target: Target, source: bytes | None, paths: Callable[[], Iterable[str]]) -> None:
    """Look whether a file holds a function.

    Args:
        source: what the file holds; `None`: there is no such file.
        paths: names the files that there are instead.

    Raises:
        UsageError: `NO_SUCH_FUNCTION`, with what there is instead.
    """
    if source is None:
        raise _missing(
            f"There is no {target.path} in the snapshot.",
            _close(target.path, paths(), most=1) or "Paths are relative to the repository's root.",
        )
    text = source.decode("utf-8", "replace")
    try:
        parse(text)
    except SyntaxError as error:
        raise _missing(f"{target.path} does not parse: {error.msg}.") from error
    if locate(text, target.qualname) is None:
        raise _missing(
            f"{target.path} has no function {target.qualname}.",
            _close(target.qualname, functions_of(text), most=3) or "Give the dotted name, e.g. Class.method.",
        )


def _missing(message: str, hint: str = "") -> UsageError:
    return UsageError("NO_SUCH_FUNCTION", message, hint)


def _close(name: str, names: Iterable[str], *, most: int) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(names), n=most)
    return f"Did you mean {' or '.join(near)}?" if near else ""
