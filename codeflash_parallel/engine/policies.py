"""Ranking policies by name: ours, or a callable of the user's."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from codeflash_parallel.benchmark.policy import POLICIES, Policy, Tied, ordered
from codeflash_parallel.model.errors import UsageError

#: Two arms that nobody can tell apart: what a policy is tried on before hours are spent.
_SAMPLE = tuple(
    Tied(id=name, speedup=1.5, low=1.4, high=1.6, changed_lines=lines, is_level=True)
    for lines, name in enumerate(("one", "other"), start=1)
)


def load_policy(text: str) -> Policy:
    """Return the policy that the setting `ranking` names.

    Args:
        text: a name of ours, `module:name`, or `path.py:name`; both start from the current folder.

    Raises:
        UsageError: `BAD_RANKING`, there is no such callable, or it does not return an order.
    """
    if text in POLICIES:
        return POLICIES[text]
    policy = _loaded(text)
    ordered(policy, _SAMPLE)
    return policy


def _loaded(text: str) -> Policy:
    place, _, name = text.rpartition(":")
    try:
        with _current_folder_first():
            module = _from_file(place) if place.endswith(".py") else importlib.import_module(place)
        found: Policy = getattr(module, name)
    except Exception as error:
        raise UsageError(
            "BAD_RANKING", f"The ranking policy {text} cannot be loaded: {type(error).__name__}: {error}."
        ) from error
    if not callable(found):
        raise UsageError("BAD_RANKING", f"The ranking policy {text} is no callable.")
    return found


@contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = os.getcwd()  # noqa: PTH109 - an entry of sys.path is text
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _from_file(place: str) -> ModuleType:
    path = Path(place)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {place}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
