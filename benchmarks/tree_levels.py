"""How a hostile tree is started at each isolation level."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits
from codeflash_parallel.sandbox.runner_command import install_runner

LEVELS = tuple(level.value for level in IsolationLevel)

#: Confines itself as the runner does, and then is the tree.
_ENTER = """
import json, sys
sys.path.append(sys.argv[1])
from _codeflash_runner.sandbox import confinement
with open(sys.argv[2]) as file:
    spec = json.load(file)
text, sys.argv = sys.argv[3], ["-c", *sys.argv[4:]]
try:
    confinement.confine(spec)
except confinement.ConfinementError as refused:
    sys.exit("unconfined: %s" % refused)
exec(compile(text, "tree", "exec"))
"""


class Ground:
    """Where trees grow: a cache with the runner in it. To be closed."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="process-trees-"))
        self._runner = install_runner(self._folder / "cache")

    def command(self, level: str, root: Path, words: Sequence[str]) -> ChildCommand:
        """Return the command of a tree.

        Args:
            level: of its isolation.
            root: its folder, which it sees at every level.
            words: the text of its program, and that program's arguments.
        """
        private = root / "private"
        private.mkdir(exist_ok=True)
        path = private / "spec.json"
        policy = IsolationPolicy(level=IsolationLevel(level), cache=str(self._folder / "cache"))
        spec = {"root": root, "project": root, "private": private, "user_root": root}
        spec |= {"runner": self._runner, "path": path}
        text: dict[str, object] = {name: str(value) for name, value in spec.items()}
        text |= {"mode": "tests", "isolation": policy.as_spec()}
        path.write_text(json.dumps(text), encoding="utf-8")
        interpreter = str(Path(sys.executable).resolve())  # outside of a virtual environment it needs no site
        argv = (interpreter, "-I", "-S", "-c", _ENTER, str(self._runner), str(path), *words)
        return ChildCommand(
            argv=(*argv, "{control}"), cwd=root, environment={}, limits=ProcessLimits(wall_s=300.0)
        )

    def refusal_of(self, level: str) -> str:
        """Return why this machine cannot run a level, in the words of its probe; empty if it can."""
        with tempfile.TemporaryDirectory(prefix="probe-") as root:
            argv = self.command(level, Path(root), ("",)).argv[:-1]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=root, timeout=60)
        return done.stderr.strip() if done.returncode else ""

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self._folder)
