"""Error budget of a campaign: a loop that keeps what is faster and discards the rest, over many runs.

A loop that tests a thousand programs at an error of 1 % each keeps about ten that are no faster. Here the
k-th comparison of a campaign is tested at an error of

    alpha * (kept + 1) / (k * (k + 1))

where `kept` counts the earlier ones that named a winner. Of all that a campaign keeps, the expected share of
those that are not faster is then at most alpha; while nothing is faster, the chance that it keeps anything at
all is at most alpha, however long it is. Comparisons may depend on each other in any way, as they do where
the winner of one is the baseline of the next.

Source: e-LOND of Xu and Ramdas, "Online multiple testing with e-values" (AISTATS 2024), with the weights
1 / (k * (k + 1)), which add up to one. The evidence of a confirmation is such an e-value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from codeflash_parallel.process.files import write_durably
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.run.run_state import read_value, text_of
from codeflash_parallel.workspace.cache_layout import locked


def share_of(number: int, kept: int) -> float:
    """Return the part of the error budget that a comparison may spend.

    Args:
        number: of the comparison, from 1.
        kept: how many of the earlier ones named a winner.
    """
    return (kept + 1) / (number * (number + 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One comparison of a campaign: a race and its confirmations.

    Attributes:
        number: in the campaign, from 1.
        kept: how many of the earlier ones named a winner.
        not_applied: run whose winner is not in the tree that is now compared with; empty: none.
    """

    number: int
    kept: int
    not_applied: str = ""

    @property
    def share(self) -> float:
        """Part of the error budget that it may spend."""
        return share_of(self.number, self.kept)


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """State of a campaign in its file.

    Attributes:
        comparisons: how many there were.
        kept: runs that named a winner, in order.
        champion_beat: tree that the last of these winners was faster than.
    """

    comparisons: int = 0
    kept: tuple[str, ...] = ()
    champion_beat: str = ""


class Campaign:
    """A campaign of one repository. Several processes may be at it.

    Args:
        home: the repository's folder in the cache.
        name: of the campaign.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._path = home / "campaigns" / f"{name}.json"

    def begin(self, tree: str) -> Comparison:
        """Count one more comparison and return it.

        Args:
            tree: id of the tree that candidates are compared with.

        Raises:
            EnvironmentFault: `BAD_CAMPAIGN`, the file is damaged; `CACHE_BUSY`.
            OSError: the file cannot be written.
        """
        with self._held() as state:
            number = state.comparisons + 1
            self._write(replace(state, comparisons=number))
        not_applied = state.kept[-1] if state.champion_beat == tree and state.kept else ""
        return Comparison(number=number, kept=len(state.kept), not_applied=not_applied)

    def keep(self, run_id: str, tree: str) -> None:
        """Note that a run named a winner; once for each run.

        Args:
            run_id: of the run.
            tree: id of the tree that the winner is faster than.

        Raises:
            EnvironmentFault: as in `begin`.
            OSError: the file cannot be written.
        """
        with self._held() as state:
            if run_id not in state.kept:
                self._write(replace(state, kept=(*state.kept, run_id), champion_beat=tree))

    @contextmanager
    def _held(self) -> Iterator[_State]:
        with locked(self._path.with_suffix(".lock")):
            state: _State | None = read_value(_State, self._path) if self._path.exists() else _State()
            if state is None:
                hint = "Begin a campaign of another name, or remove the file: that begins this one anew."
                raise EnvironmentFault("BAD_CAMPAIGN", f"{self._path} is damaged.", hint)
            yield state

    def _write(self, state: _State) -> None:
        write_durably(self._path, text_of(_State, state))
