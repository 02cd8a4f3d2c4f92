"""Callables of the user's, named as ``path.py::name``: `benchmark` and `accept`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codeflash_parallel.model.errors import UsageError
from codeflash_parallel.model.target import Target

#: By setting: the code of an error, and what is wrong with a callable in the file of a target.
_SETTINGS = {
    "benchmark": ("BAD_BENCHMARK", "no candidate's code would be timed"),
    "accept": ("BAD_JUDGE", "candidates would change their own judge"),
}


def named_callable(
    setting: str, place: str, read: Callable[[str], bytes | None], targets: Iterable[Target]
) -> dict[str, str]:
    """Return what a guest's spec says of a callable: `path`, `name` and `source`.

    Args:
        setting: its name.
        place: ``path.py::name``, the path relative to the repository's root.
        read: returns the snapshot's bytes of a file.
        targets: the callable must not lie in their files.

    Raises:
        UsageError: `BAD_BENCHMARK` or `BAD_JUDGE`: there is no such file, or it holds a target.
    """
    path, _, name = place.partition("::")
    code, why = _SETTINGS[setting]
    source = read(path)
    if source is None:
        hint = "The path is relative to the repository's root."
        raise UsageError(code, f"{setting} names {path}, which the snapshot does not have.", hint)
    if path in {target.path for target in targets}:
        hint = "Put it into a file of its own that imports the target."
        raise UsageError(code, f"{setting} names {path}, which holds a target: {why}.", hint)
    return {"path": path, "name": name, "source": source.decode("utf-8", "surrogateescape")}
