"""F2: a template that has collected its tests with the baseline's code; its children swap the targets' code.

Use by a serving guest, in this order:

1. `probe = Probe(spec, guard)` in the process that is on its way to F2 (the first one with ``"until": "F2"``, or
   the child that becomes an F2 template), after `importing.install` and before any target is imported;
2. `ready.update(probe.examine(items))` at the point, before `gc.freeze()`: "called_early", "swappable", "why";
3. `probe.apply(spec, channel)` in the child, with the *child's* spec, after "go": writes the `source` records, or
   raises `Unswappable`, whose text is the `why` of the record (then end with status `UNSWAPPABLE_STATUS`).

The template's own loads of targets write no `source` record: `apply` writes them.
"""

#: Exit status of a child that could not swap.
UNSWAPPABLE_STATUS = 75


class Unswappable(Exception):  # noqa: N818 - a fact about the candidate, one clause
    """The candidate cannot be had by swapping code objects."""


class Probe:
    """Watches the targets from before their import until the point, then knows what may be swapped.

    Args:
        spec: the template's spec.
        guard: what `importing.install` returned.
    """

    def __init__(self, spec, guard):
        self._spec, self._guard = spec, guard

    def examine(self, items=()):
        """Stop watching and return the fields of the ready record: "called_early", "swappable", "why".

        Args:
            items: the collected test items of pytest.
        """
        return {"called_early": 0, "swappable": False, "why": "not built yet"}

    def apply(self, spec, channel):
        """Swap the code of the functions that ``spec["swap"]`` names for what the slot's files say now.

        Raises:
            Unswappable: something else differs, too.
        """
        raise Unswappable("not built yet")
