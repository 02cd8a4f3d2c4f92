"""Which of very many calls are kept: a uniform sample of fixed size, cheap to pass by."""

import math
import random
import threading

#: A call number that is never reached.
NEVER = 1 << 62


class Reservoir:
    """Keeps `capacity` of the calls that are offered, each with equal probability.

    Until it is full every call is admitted; then the number of the next call to admit is drawn (algorithm L:
    Li, "Reservoir-Sampling Algorithms of Time Complexity O(n(1+log(N/n)))", 1994), so that passing a call
    by costs one comparison with `due[0]`.
    """

    def __init__(self, capacity, seed):
        self.due = [0 if capacity else NEVER]
        self.kept = []
        self._capacity = capacity
        self._random = random.Random(seed)
        self._weight = 1.0
        #: What `due` will be after a pause.
        self._next = None
        # Reentrant: garbage collection may finish a generator of the target inside `admit`.
        self._lock = threading.RLock()

    def admit(self, number, item):
        """Put an item into the reservoir, perhaps in place of another; say whether it was its turn."""
        with self._lock:
            if number < self.due[0]:
                return False
            if len(self.kept) < self._capacity:
                self.kept.append(item)
            else:
                self.kept[self._random.randrange(self._capacity)] = item
            if len(self.kept) == self._capacity and self.due[0] != NEVER:
                self._draw(number)
            return True

    def pause(self):
        """Admit nothing until `resume`."""
        with self._lock:
            if self._next is None:
                self._next, self.due[0] = self.due[0], NEVER

    def resume(self):
        """Go on after a pause; what was passed by meanwhile had no chance."""
        with self._lock:
            if self._next is not None:
                self._next, self.due[0] = None, self._next

    def close(self):
        """Admit nothing from now on."""
        with self._lock:
            self._next, self.due[0] = NEVER, NEVER

    def _draw(self, number):
        uniform = 1.0 - self._random.random()
        self._weight *= math.exp(math.log(uniform) / self._capacity)
        chance = math.log1p(-self._weight) if self._weight < 1.0 else -math.inf
        skip = math.floor(math.log(1.0 - self._random.random()) / chance) if chance else NEVER
        self.due[0] = min(NEVER, number + skip + 1)
