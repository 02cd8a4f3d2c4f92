"""What candidates change: found out once for each, and ahead of time where there is any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from codeflash_parallel.candidates.code_changes import Constant, changed_constants, fingerprint, loosens
from codeflash_parallel.candidates.functions import Target, functions_of, signature, touched
from codeflash_parallel.check.dispatch.fork_points import ForkChoice, ForkContext, ForkPoint, furthest
from codeflash_parallel.check.review_flags import added_flags
from codeflash_parallel.result.candidate.candidate_model import Candidate, CandidateId
from codeflash_parallel.result.result_model import Flag


class Changes:
    """The changes of one run's candidates. Everything that is asked is remembered.

    Args:
        targets: the functions under optimization.
        read: returns the snapshot's bytes of a file, `None` where there is none.
    """

    def __init__(self, targets: Sequence[Target], read: Callable[[str], bytes | None]) -> None:
        self._targets, self._read = targets, read
        self._sources: dict[str, bytes] = {}
        self._servings: dict[CandidateId, ForkChoice] = {}
        self._prints: dict[CandidateId, str] = {}
        self._flags: dict[CandidateId, tuple[Flag, ...]] = {}
        self._unchanged: dict[tuple[str, ...], str] = {}

    def look_at(self, candidate: Candidate) -> None:
        """Find out everything: the tree of what was parsed last is still at hand."""
        self.print_of(candidate)
        self.serving(candidate)
        self.flags_of(candidate)

    def print_of(self, candidate: Candidate) -> str:
        """Return the fingerprint of a candidate's files."""
        if candidate.id not in self._prints:
            new = {edit.path: edit.new for edit in candidate.edits}
            self._prints[candidate.id] = fingerprint(new, {path: self._read(path) for path in new})
        return self._prints[candidate.id]

    def flags_of(self, candidate: Candidate) -> tuple[Flag, ...]:
        """Return what its code has and the snapshot's has not, and is a reason to look harder."""
        if candidate.id not in self._flags:
            new = {edit.path: edit.new for edit in candidate.edits}
            self._flags[candidate.id] = added_flags({path: self._read(path) for path in new}, new)
        return self._flags[candidate.id]

    def is_none(self, candidate: Candidate) -> bool:
        """Tell whether a candidate runs the snapshot's code."""
        paths = tuple(edit.path for edit in candidate.edits)
        if paths not in self._unchanged:
            self._unchanged[paths] = fingerprint({path: self._read(path) for path in paths})
        return not paths or self.print_of(candidate) == self._unchanged[paths]

    def constants(self, candidate: Candidate) -> tuple[Constant, ...]:
        """Return numbers and texts of the code that a candidate changes, its own first."""
        edits = [edit for edit in candidate.edits if edit.path.endswith(".py") and edit.new is not None]
        found = [changed_constants(self._read(edit.path) or b"", edit.new or b"") for edit in edits]
        return tuple(dict.fromkeys(chain.from_iterable(found)))

    def loosens(self, candidate: Candidate) -> bool:
        """Say whether a candidate adds an `except`, or drops a check or a conversion."""
        return any(
            loosens(self._read(edit.path) or b"", edit.new)
            for edit in candidate.edits
            if edit.path.endswith(".py") and edit.new is not None
        )

    def touched(self, candidate: Candidate) -> tuple[Target, ...]:
        """Return the functions of the snapshot that a candidate changes."""
        found = []
        for edit in candidate.edits:
            old = self._read(edit.path)
            if edit.path.endswith(".py") and old is not None and edit.new is not None:
                names = touched(old.decode("utf-8", "replace"), edit.new.decode("utf-8", "replace"))
                found += [Target(path=edit.path, qualname=name) for name in names]
        return tuple(found)

    def beside(self, candidate: Candidate) -> tuple[Target, ...]:
        """Return the functions of the files that a candidate edits which are no targets.

        Not those that Python calls by itself: objects call them while they are made, copied and compared.
        """
        paths = sorted(edit.path for edit in candidate.edits if edit.path.endswith(".py"))
        texts = {path: text for path in paths if (text := self._read(path)) is not None}
        found = (
            Target(path=path, qualname=name)
            for path, text in texts.items()
            for name in functions_of(text.decode("utf-8", "replace"))
            if not name.endswith("__")
        )
        return tuple(target for target in found if target not in set(self._targets))

    def keeps(self, candidate: Candidate, functions: Sequence[Target]) -> bool:
        """Say whether a candidate still has some functions, with the signatures that the snapshot's have."""
        new = {edit.path: edit.new for edit in candidate.edits}
        return all(
            signature((new[path] or b"").decode("utf-8", "replace"), name)
            == signature((self._read(path) or b"").decode("utf-8", "replace"), name)
            for path, name in functions
            if path in new
        )

    def serving(self, candidate: Candidate) -> ForkChoice:
        """Return where a check may begin, as far as the edits tell: nothing is known of packages."""
        if candidate.id not in self._servings:
            self._sources = self._sources or {t.path: self._read(t.path) or b"" for t in self._targets}
            ground = ForkContext(targets=self._targets, sources=self._sources)
            self._servings[candidate.id] = furthest(candidate.edits, ground)
        return self._servings[candidate.id]

    def known_serving(self, candidate: Candidate) -> ForkChoice | None:
        """Return where a check may begin, `None` where that depends on what else there is in the slot."""
        serving = self.serving(candidate)
        return None if serving.point is ForkPoint.NEW_PROCESS else serving
