"""What a guest says of one test, of one call, and of inputs that it derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple


@dataclass(frozen=True, kw_only=True, slots=True)
class TestOutcome:
    """One test: `passed`, `failed`, `error`, `skipped`, `xfailed` or `xpassed`.

    Attributes:
        ns: setup, call and teardown together.
        phase, message: of the phase that decided a failure.
    """

    # Not a test: pytest must not collect it where it is imported.
    __test__: ClassVar[bool] = False

    id: str
    outcome: str
    ns: int = 0
    phase: str = ""
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOutcome:
    """One call of a target: digests of what it gave and of its arguments afterwards.

    Attributes:
        kind: `return` or `raise`.
        digest, floatless, typeless: of the outcome: exact, with floats masked, with types unified by value.
        after: of result and arguments after the call, taken together (aliasing shows).
        traces: what else the call left behind, as ``name=text;...``; of the baseline those that are stable.
        floats, skeleton: of a call that was measured: all floats in result and arguments, packed, and the
            digest of everything else.
        plain: the result as JSON, for the user's judge; empty where nobody judges, or with why in `untold`.
        arguments: digest of the arguments alone after the call, for a result that is judged.
        left: the arguments after the call, in words; empty where they are as before.
        space: of arguments that may be scratch space, as `_runner.replay.call_effects` tells it;
            empty: there are none.
        ns: CPU time of the call.
        copy_ns: CPU time of making its inputs, where it was made again.
        inputs: digest of all that a replay depends on; empty unless the inputs were captured.
        unencodable: why there are no digests; empty when there are.
        opaque: why the digests tell of a part the type only; empty where they tell all.
    """

    index: int
    test: str
    target: int
    kind: str
    type: str = ""
    digest: str = ""
    floatless: str = ""
    typeless: str = ""
    after: str = ""
    traces: str = ""
    floats: str = ""
    skeleton: str = ""
    space: Mapping[str, str] = field(default_factory=dict)
    plain: str = ""
    untold: str = ""
    arguments: str = ""
    text: str = ""
    args: str = ""
    left: str = ""
    captured: bool = False
    inputs: str = ""
    why: str = ""
    ns: int = 0
    copy_ns: int = 0
    thread: bool = False
    unencodable: str = ""
    opaque: str = ""

    @property
    def essence(self) -> tuple[str, str, str]:
        """Return what must be equal for two outcomes to be the same."""
        return (self.kind, self.digest, self.after)

    def repeats(self, first: CallOutcome) -> bool:
        """Say whether the baseline gave the same before; of what is judged results may differ."""
        if self.plain and first.plain:
            return self.arguments == first.arguments
        return (self.essence, self.type) == (first.essence, first.type)


class CallDigests(NamedTuple):
    """What a replay says of a call of which only the digests were wanted; as in `CallOutcome`.

    A tuple: there are hundreds of them for each candidate.

    Attributes:
        call: its index.
    """

    call: int
    kind: str
    type: str
    digest: str
    floatless: str
    typeless: str
    after: str
    traces: str
    ns: int


class DerivedInput(NamedTuple):
    """A fresh input.

    Attributes:
        base: the call that it was made from.
        breaks: the relation that it breaks; empty: it keeps all.
        raises: type of what the baseline raised when it was tried out; empty: it returned.
        size: length of the longest container or text in it.
    """

    base: int
    breaks: str = ""
    raises: str = ""
    size: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Derivation:
    """What came of deriving inputs for one target.

    Attributes:
        raised, slow: inputs that are not kept: the baseline raises what nobody meant, or takes too long.
        seen: length of the longest container or text that was observed.
        failed: type of the exception that ended making inputs, a defect of ours; empty: none.
    """

    raised: int = 0
    slow: int = 0
    seen: int = 0
    failed: str = ""
