"""Ranking policies by name: ours, or a callable of the user's."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

from codeflash_parallel.config.settings import RankingMode
from codeflash_parallel.race.ranking.ranking_result import POLICIES, Policy, TiedCandidate, fastest, ordered
from codeflash_parallel.result.errors import UsageError

#: Begins the name of a module that is read from a file: it shadows none that has the same stem.
_PRIVATE = "_codeflash_parallel_policy_"

#: Two arms that nobody can tell apart: what a policy is tried on before hours are spent.
_SAMPLE = tuple(
    TiedCandidate(id=name, speedup=1.5, low=1.4, high=1.6, changed_lines=lines, is_level=True)
    for lines, name in enumerate(("one", "other"), start=1)
)


def _nobody(_failure: str) -> None:
    """Nobody has to be told."""


def load_policy(text: str, warn: Callable[[str], object] = _nobody) -> Policy:
    """Return the policy that the setting `ranking` names.

    One of the user's that fails later, on a real tie, does not cost what was measured: that tie is ordered
    as `fastest` does it.

    Args:
        text: a name of ours, `module:name`, or `path.py:name`; both start from the current folder.
        warn: is told, in whole sentences, when the policy fails on a tie.

    Raises:
        UsageError: `BAD_RANKING`, there is no such callable, or it does not return an order.
    """
    if text in POLICIES:
        return POLICIES[text]
    policy = _loaded(text)
    ordered(policy, _SAMPLE)
    return partial(_ordered_somehow, policy, warn)


def _ordered_somehow(
    policy: Policy, warn: Callable[[str], object], tied: Sequence[TiedCandidate]
) -> Sequence[str]:
    try:
        return ordered(policy, tied)
    except UsageError as error:
        warn(f"{error.message} The tie is ordered as by {RankingMode.FASTEST}.")
        return fastest(tied)


def _loaded(text: str) -> Policy:
    place, _, name = text.rpartition(":")
    try:
        with _current_folder_first():
            module = _from_file(place) if place.endswith(".py") else importlib.import_module(place)
        found: Policy = getattr(module, name)
    except (Exception, SystemExit) as error:
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
    spec = importlib.util.spec_from_file_location(f"{_PRIVATE}{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"there is no file {place}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses, pickles and type hints look for it there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    return module
