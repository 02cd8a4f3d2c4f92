"""Random states across a fork."""

import random
import sys


class RandomState:
    """Random states: as the system gave them, or as somebody has set them."""

    def __init__(self):
        self._initial = self._held = random.getstate()
        self._numpy = None

    def look(self):
        """Note the state of numpy's generator as soon as there is one; nobody can have seeded it before."""
        if self._numpy is None:
            generator = _numpy_generator()
            self._numpy = None if generator is None else _state(generator)

    def hold(self):
        """Keep the state of `random`: the interpreter seeds it anew in every fork."""
        self._held = random.getstate()

    def renew(self):
        """Restore what somebody has set, and seed anew what nobody has touched."""
        if self._held != self._initial:
            random.setstate(self._held)
        generator = _numpy_generator()
        if generator is not None and _state(generator) == self._numpy:
            generator.seed()


def _numpy_generator():
    return getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)


def _state(generator):
    return [getattr(part, "tolist", lambda part=part: part)() for part in generator.get_state()]
