"""Draw canaries for the preflight, which finds out where they fail as they must."""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.integrity.assertion_helpers import uses
from codeflash_parallel.check.integrity.canaries import Canary, draw_at, places_of, to_be_tried
from codeflash_parallel.check.session.selected_tests import file_of
from codeflash_parallel.result.runtime_protocols import Workspace

#: Test modules that are looked through, at most: 10 ms for each 1,000 lines.
_MOST_FILES = 40
#: Larger ones are made by programs.
_MOST_BYTES = 512 * 1024


def canaries_to_try(workspace: Workspace, draft: Baseline) -> tuple[Canary, ...]:
    """Return canaries for as many places as the baseline is to try. Blocking.

    Args:
        workspace: it holds the unchanged snapshot.
        draft: knows the selected tests.
    """
    order = draft.order or draft.selected
    random = SystemRandom()
    files = list(dict.fromkeys(map(file_of, order)))
    last = file_of(draft.selected[-1]), file_of(order[-1])
    chosen = {*last, *random.sample(files, min(_MOST_FILES, len(files)))}
    texts = {file: _text(workspace.root / draft.rootdir / file) for file in chosen}
    used = {file: uses(text) for file, text in texts.items() if text}
    places = to_be_tried(random, places_of(order, used), (draft.selected[-1], order[-1]))
    return draw_at(random, order, places)


def _text(path: Path) -> bytes:
    """Return what a Python file holds; nothing where it is none, or too large."""
    usable = path.suffix == ".py" and path.is_file() and path.stat().st_size <= _MOST_BYTES
    return path.read_bytes() if usable else b""
