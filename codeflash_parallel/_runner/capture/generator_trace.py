"""What a generator gave: the items that its consumer read, each as it was when it was handed out.

The digests are those that a replay gives for `Spent`: the same walk, made step by step.
"""

from hashlib import blake2b
from time import perf_counter_ns

from ..values.object_reduction import UnencodableValue
from ..values.type_handlers import MAX_ITEMS, REFUSE, begin_spent, end_spent
from ..values.value_digests import observe_raise, walk_in_part
from ..values.value_text import render

#: Parts of a text that are gathered before they are digested.
_MANY = 1_000

#: Items that are shown, and the longest text of one.
_SHOWN, _MAX_TEXT = 100, 200


class UnrecordedTrace:
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


SILENT = UnrecordedTrace()


class GeneratorTrace:
    """What a generator has given so far; its outcome is written when it ends, or as far as it was read."""

    def __init__(self, recorder, call, args, kwargs):
        self._recorder, self._call, self._arguments = recorder, call, (args, kwargs)
        self._digests = [blake2b(digest_size=16) for _ in range(3)]
        self._texts, self._count, self._why, self._is_full = [], 0, "", False
        shape = call.origin.shape
        self._type = "builtins." + ("async_generator" if shape == "asyncgen" else "generator")
        self._walk = walk_in_part(REFUSE)
        begin_spent(self._walk, self._type)
        self._walk.met(self)  # numbered as the list of all items is
        self._walk.write("[")
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
        if self._count > 1:
            self._walk.write(", ")
        self._add(item)
        if self._count <= _SHOWN:
            self._texts.append(render(item, _MAX_TEXT))
        if not self._recorder.spend(now):
            self._why = "the budget of seconds is spent"
        self._is_full = bool(self._why) or self._count >= MAX_ITEMS

    def _charge(self, started):
        if started:
            self._call.ns += perf_counter_ns() - started

    def _add(self, part):
        try:
            self._walk.run(part)
        except UnencodableValue as error:
            self._why = str(error)
        if len(self._walk.full) > _MANY:
            self._flush()

    def _flush(self):
        for digest, text in zip(self._digests, self._walk.taken_texts()):
            digest.update(text.encode("utf-8", "surrogatepass"))

    def ended(self, started, value):
        """Record that the generator is exhausted."""
        self._charge(started)
        self._finish("exhausted", [] if value is None else [value])

    def close(self):
        """Record that the rest was not wanted."""
        self._call.items = self._count
        self._finish("read in part", "cut")

    def left(self, started, error, thrown):
        """Record that the generator raised.

        Args:
            thrown: what the consumer threw in. A cancellation that comes out again is no outcome of the
                target's, and an error that does is none that a replay could give.
        """
        if error is thrown and not isinstance(error, Exception):
            self.close()
            return
        self._charge(started)
        raised = observe_raise(error, *self._arguments, REFUSE)
        kept = raised if error is thrown else {"after": raised["after"]}
        self._finish("raises " + raised["type"], "raises %r" % raised["type"], kept)

    def _finish(self, state, ending, fields=None):
        if self not in self._recorder.unfinished:
            return
        self._recorder.unfinished.discard(self)
        self._walk.write("]")
        for part in end_spent(self._walk, "cut" if self._count >= MAX_ITEMS else ending):
            self._add(part)
        self._flush()
        shown = ("[%s] %s" % (", ".join(self._texts), state))[:2000]
        fields = {"kind": "return", "type": self._type, "after": "", "text": shown, **(fields or {})}
        fields.update(zip(("digest", "floatless", "typeless"), [one.hexdigest() for one in self._digests]))
        if self._why:
            fields.update(digest="", floatless="", typeless="", after="")
        if why := self._why or self._walk.opaque:
            fields["unencodable"] = why
        self._call.fields = fields
