"""The command that shows a rejection again in a kept slot, through the guest: imports stay in that slot."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.session.replay_specs import replay_spec
from codeflash_parallel.check.session.runner_session import RunnerConfig, SelectedRun, selected_run_spec
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.sandbox.runner_command import guest_command

#: More failing tests than this are not run again: one is enough to look at.
_TESTS = 5
#: Where the guest's records go when pytest's own output is what one wants to see.
_HIDDEN_RECORDS = ("3", " 3>/dev/null")
#: Where they go when they are the answer: the replayed call, its value, its arguments afterwards.
_SHOWN_RECORDS = ("1", "")


def reproduction(guest: RunnerConfig, baseline: Baseline, workspace: Workspace, outcome: CheckOutcome) -> str:
    """Write a spec beside the slot's tree and return the shell command that runs it.

    A differing call is replayed alone and printed as a JSON record, while the tests lie elsewhere if they did
    so in the check; otherwise the failing tests are run. Sets have the order that they had: the hash seed is
    that of the workspace.

    Args:
        guest, baseline: what the candidate was held against.
        workspace: where it is staged.
        outcome: of its check.
    """
    difference = outcome.difference
    aside: tuple[str, ...] = ()
    if difference is not None and difference.call in baseline.known.all:
        call = (difference.call,)
        captured, derived = ((), call) if difference.derived else (call, ())
        made = (baseline.derived_inputs, derived)
        spec = replay_spec(guest, baseline.inputs, (), captured, texts=call, derived=made)
        descriptor, redirection = _SHOWN_RECORDS
        aside = next(part.aside for part in baseline.parts if difference.call in part.known.all)
    else:
        failing = (*outcome.tests.failed_ids, *outcome.tests.missing_ids)[:_TESTS]
        run = SelectedRun(only=failing or None)
        spec = {**selected_run_spec(guest, workspace, baseline, run), "summary": True}
        descriptor, redirection = _HIDDEN_RECORDS
    command = guest_command(workspace, spec, ProcessLimits(wall_s=0), guest.directory)
    words = [descriptor if word == "{records}" else word for word in command.argv]
    seed = f"PYTHONHASHSEED={workspace.environment['PYTHONHASHSEED']}"
    return _without(workspace.root, aside, shlex.join(["env", seed, *words]) + redirection)


def _without(tree: Path, paths: Sequence[str], command: str) -> str:
    """Return a shell command that runs another one while files of a tree lie beside it, Ctrl-C or not."""
    if not paths:
        return command
    folder = tree.with_name(f"{tree.name}-aside")
    pairs = [(shlex.quote(str(tree / path)), shlex.quote(f"{folder}/{n}")) for n, path in enumerate(paths)]
    away = " && ".join([f"mkdir -p {shlex.quote(str(folder))}", *(f"mv {at} {to}" for at, to in pairs)])
    back = "; ".join(f"mv {to} {at}" for at, to in pairs)
    # `status` cannot be assigned in zsh.
    return f"(trap : INT; {away} && {command}; ended=$?; {back}; exit $ended)"
