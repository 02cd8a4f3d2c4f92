"""What a generator gave: the items that its consumer read, each as it was when it was handed out."""

from hashlib import blake2b
from time import perf_counter_ns

from .encode import REFUSE, Unencodable, encode, observe_raise

#: Items of one generator that enter its digest; what comes later is only counted.
_MAX_ITEMS = 10_000

#: Items of these types stay what they are: they are gathered and encoded together.
_ATOMS = frozenset({int, float, bool, str, bytes, type(None)})

#: Items that are shown, and the longest text of one.
_SHOWN, _MAX_TEXT = 100, 200


class Silent:
    """A trace of a generator that is not recorded."""

    def clock(self):
        """Return no time."""
        return 0

    def item(self, started, item):
        """Ignore an item."""

    def ended(self, started, value):
        """Ignore the end."""

    def left(self, started, error, thrown):
        """Ignore an error."""

    def close(self):
        """Ignore that the rest was not wanted."""


SILENT = Silent()


class Trace:
    """What a generator has given so far; its outcome is written when it ends, or as far as it was read."""

    def __init__(self, recorder, call, args, kwargs):
        self._recorder, self._call, self._arguments = recorder, call, (args, kwargs)
        self._digests = [blake2b(digest_size=16) for _ in range(3)]
        self._texts, self._count, self._why, self._is_full = [], 0, "", False
        self._pending = []
        recorder.unfinished.add(self)

    def clock(self):
        """Return the time, in nanoseconds; no time once items are only counted.

        Not the thread's CPU time: reading that is a system call, which costs more than most items.
        """
        return 0 if self._is_full else perf_counter_ns()

    def item(self, started, item):
        """Take the next item, as it is now: the consumer may change it."""
        self._count += 1
        if self._is_full:
            return
        now = perf_counter_ns()
        self._call.ns += now - started
        if type(item) in _ATOMS:
            self._pending.append(item)
            self._is_full = self._count >= _MAX_ITEMS
            return
        self._flush()
        self._add(item)
        if not self._recorder.spend(now):
            self._why = "the budget of seconds is spent"
        self._is_full = bool(self._why) or self._count >= _MAX_ITEMS

    def _charge(self, started):
        if started:
            self._call.ns += perf_counter_ns() - started

    def _flush(self):
        """Encode the items that nobody could have changed, all at once."""
        if self._pending and not self._why:
            started = perf_counter_ns()
            self._add(self._pending)
            self._recorder.spend(started)
        self._pending = []

    def _add(self, part):
        try:
            encoded = encode(part, REFUSE)
        except Unencodable as error:
            self._why = str(error)
            return
        for digest, text in zip(self._digests, (encoded.full, encoded.floatless, encoded.typeless)):
            digest.update(text.encode())
        if len(self._texts) < _SHOWN:
            self._texts.append(encoded.text[1:-1] if part is self._pending else encoded.text[:_MAX_TEXT])

    def ended(self, started, value):
        """Record that the generator is exhausted."""
        self._charge(started)
        self._flush()
        if value is not None:
            self._add(value)
        self._finish("exhausted", self._returned())

    def close(self):
        """Record that the rest was not wanted."""
        self._call.items = self._count
        self._finish("read in part", self._returned())

    def _returned(self):
        name = "async_generator" if self._call.origin.shape == "asyncgen" else "generator"
        return {"kind": "return", "type": "builtins." + name, "after": ""}

    def left(self, started, error, thrown):
        """Record that the generator raised.

        Args:
            thrown: what the consumer threw in. A cancellation that comes out again is no outcome of the
                target's.
        """
        if error is thrown and not isinstance(error, Exception):
            self.close()
            return
        self._charge(started)
        self._finish("raised", observe_raise(error, *self._arguments, REFUSE))

    def _finish(self, state, fields):
        if self not in self._recorder.unfinished:
            return
        self._recorder.unfinished.discard(self)
        self._flush()
        names = ("digest", "floatless", "typeless")
        for name, digest in zip(names, self._digests):
            digest.update(("%d %s %s" % (self._count, state, fields.get(name, ""))).encode())
            fields[name] = digest.hexdigest()
        shown = ("[%s] %s" % (", ".join(self._texts), state))[:2000]
        fields.setdefault("text", shown)
        if self._why:
            fields.update(digest="", floatless="", typeless="", after="", unencodable=self._why)
        self._call.fields = fields
