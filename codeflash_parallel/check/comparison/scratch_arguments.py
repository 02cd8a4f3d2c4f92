"""Arguments that the baseline uses as scratch space: it returns something else, and leaves them in any state.

A candidate that leaves them in another state gets a hint. Pure; `_runner.replay.scratch_arguments`
has told of each call.
"""

from __future__ import annotations

from collections.abc import Mapping

from codeflash_parallel.check.comparison.call_comparison import BaselineReplays
from codeflash_parallel.check.session.runner_report import CallOutcome

#: Number of a target, and the place of an argument.
Spaces = frozenset[tuple[int, str]]


def scratch_spaces(known: BaselineReplays) -> Spaces:
    """Return the arguments that are scratch space, as far as the inputs vouch for it."""
    calls = [call for index, call in known.all.items() if index not in known.breaks]
    said = {(call.target, call.space.get("at", "")) for call in calls}
    # It rearranges something and returns where: that is what it is called for.
    places = {target for target, at in said if at == "yes" and (target, "no") not in said}
    changed = ((c.target, place) for c in calls for place, text in c.space.items() if text.startswith("~"))
    return frozenset(one for one in changed if one[0] not in places)


def uses(call: CallOutcome, spaces: Spaces) -> bool:
    """Say whether a call of the baseline is given scratch space, and keeps its length."""
    return any(_is_used(call, place, spaces) for place in call.space)


def is_scratch(expected: CallOutcome, got: CallOutcome, spaces: Spaces) -> bool:
    """Say whether a call differs in the contents of scratch space only: all the rest is equal."""
    ours, theirs = _named(expected.space), _named(got.space)
    return ours.keys() == theirs.keys() and all(
        _shape(theirs[name]) == _shape(text)
        if _is_used(expected, name, spaces)
        else theirs[name][1:] == text[1:]
        for name, text in ours.items()
    )


def _named(space: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in space.items() if name != "at"}


def _is_used(call: CallOutcome, place: str, spaces: Spaces) -> bool:
    return call.space[place][:1] in {"~", ".", "="} and (call.target, place) in spaces


def _shape(text: str) -> str:
    return text[1:].partition(" ")[0]
