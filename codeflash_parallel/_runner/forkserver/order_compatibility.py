"""Which orders a template can follow: what it has done already cannot be done otherwise."""

from .fork_safety import COLLECTED

#: What a fork cannot take from its own spec any more: the template has acted on it.
_FIXED = (
    "mode",
    "args",
    "also",
    "root",
    "project",
    "user_root",
    "private",
    "guest",
    "targets",
    "workers",
    "isolation",
)
#: What it cannot take from there, either, where the wrappers that record calls are in place: at `collected`.
_RECORDING = ("wrap", "budget", "seed", "inputs")


def objection(point, mine, spec):
    """Return why a fork cannot do what its spec says, one clause; empty if it can.

    Args:
        point: where the template stands.
        mine: the template's spec.
        spec: the fork's.
    """
    differing = [name for name in _FIXED if (spec.get(name) or None) != (mine.get(name) or None)]
    if differing:
        return "the template has other %s" % differing[0]
    if point == COLLECTED and spec.get("swap") is None:
        return "nothing is said about what to swap"
    otherwise = point == COLLECTED and _recording(spec) != _recording(mine)
    return "calls inside the tests are recorded otherwise" if otherwise else ""


def _recording(spec):
    """Return how calls inside the tests are recorded; None if they are not."""
    recorded = spec.get("wrap", "none") != "none"
    return [spec.get(name) for name in _RECORDING] if recorded else None
