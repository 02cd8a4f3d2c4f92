"""Changes of candidates: found once for each, and ahead of time where there is any."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from codeflash_parallel.candidates.code_changes import Constant, changed_constants, fingerprint, loosens
from codeflash_parallel.candidates.functions import Target, functions_of, signature, touched
from codeflash_parallel.check.dispatch.fork_points import ForkChoice, ForkContext, ForkPoint, furthest
from codeflash_parallel.check.review_flags import added_flags
from codeflash_parallel.result.candidate_model import Candidate, CandidateId
from codeflash_parallel.result.result_model import Flag

#: Content by path, `None` where there is no such file.
Files = Mapping[str, bytes | None]
_Found = TypeVar("_Found")


class Changes:
    """The changes of one run's candidates. What takes long is remembered.

    Args:
        targets: the functions under optimization.
        read: returns the snapshot's bytes of a file, `None` where there is none.
    """

    def __init__(self, targets: Sequence[Target], read: Callable[[str], bytes | None]) -> None:
        self._targets, self._read = targets, read
        self._known: dict[tuple[str, CandidateId], Any] = {}

    def look_at(self, candidate: Candidate) -> None:
        """Find out everything: the tree of what was parsed last is still at hand."""
        self.print_of(candidate)
        self.serving(candidate)
        self.flags_of(candidate)

    def print_of(self, candidate: Candidate) -> str:
        """Return the fingerprint of a candidate's files."""
        return self._once("print", candidate, lambda old, new: fingerprint(new, old))

    def flags_of(self, candidate: Candidate) -> tuple[Flag, ...]:
        """Return the suspicious constructs that its code has and the snapshot's has not."""
        return self._once("flags", candidate, added_flags)

    def is_none(self, candidate: Candidate) -> bool:
        """Tell whether a candidate runs the snapshot's code."""
        unchanged = self._once("unchanged", candidate, lambda old, _: fingerprint(old))
        return not candidate.edits or self.print_of(candidate) == unchanged

    def serving(self, candidate: Candidate) -> ForkChoice:
        """Return where a check may begin, as far as the edits tell: nothing is known of packages."""

        def choice(_old: Files, _new: Files) -> ForkChoice:
            sources = {target.path: self._read(target.path) or b"" for target in self._targets}
            return furthest(candidate.edits, ForkContext(targets=self._targets, sources=sources))

        return self._once("serving", candidate, choice)

    def known_serving(self, candidate: Candidate) -> ForkChoice | None:
        """Return where a check may begin, `None` where that depends on what else there is in the slot."""
        serving = self.serving(candidate)
        return None if serving.point is ForkPoint.NEW_PROCESS else serving

    def constants(self, candidate: Candidate) -> tuple[Constant, ...]:
        """Return numbers and texts of the code that a candidate changes, its own first."""
        found = [changed_constants(old or b"", new) for _, old, new in self._python(candidate)]
        return tuple(dict.fromkeys(chain.from_iterable(found)))

    def loosens(self, candidate: Candidate) -> bool:
        """Say whether a candidate adds an `except`, or drops a check or a conversion."""
        changed = self._python(candidate)
        return self._once(
            "loosens", candidate, lambda _old, _new: any(loosens(old or b"", new) for _, old, new in changed)
        )

    def touched(self, candidate: Candidate) -> tuple[Target, ...]:
        """Return the functions of the snapshot that a candidate changes."""
        return tuple(
            Target(path=path, qualname=name)
            for path, old, new in self._python(candidate)
            if old is not None
            for name in touched(_text(old), _text(new))
        )

    def beside(self, candidate: Candidate) -> tuple[Target, ...]:
        """Return the functions of the files that a candidate edits which are no targets.

        Not those that Python calls by itself: objects call them while they are made, copied and compared.
        """
        paths = sorted(edit.path for edit in candidate.edits if edit.path.endswith(".py"))
        found = (
            Target(path=path, qualname=name)
            for path in paths
            for name in functions_of(_text(self._read(path)))
            if not name.endswith("__")
        )
        return tuple(target for target in found if target not in set(self._targets))

    def keeps(self, candidate: Candidate, functions: Sequence[Target]) -> bool:
        """Say whether a candidate still has some functions, with the signatures that the snapshot's have."""
        new = {edit.path: edit.new for edit in candidate.edits}
        return all(
            signature(_text(new[path]), name) == signature(_text(self._read(path)), name)
            for path, name in functions
            if path in new
        )

    def _once(self, what: str, candidate: Candidate, find: Callable[[Files, Files], _Found]) -> _Found:
        """Return what is found of the old and the new text of a candidate's files, by path."""
        if (what, candidate.id) not in self._known:
            new = {edit.path: edit.new for edit in candidate.edits}
            self._known[what, candidate.id] = find({path: self._read(path) for path in new}, new)
        found: _Found = self._known[what, candidate.id]
        return found

    def _python(self, candidate: Candidate) -> Iterator[tuple[str, bytes | None, bytes]]:
        """Yield path, old and new bytes of the Python files that a candidate has."""
        for edit in candidate.edits:
            if edit.path.endswith(".py") and edit.new is not None:
                yield edit.path, self._read(edit.path), edit.new


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")
