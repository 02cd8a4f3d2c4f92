"""The command that shows a rejection again in a kept slot, through the guest: imports stay in that slot."""

from __future__ import annotations

import shlex

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.plan import CheckOutcome
from codeflash_parallel.behavior.replay_specs import replay_spec
from codeflash_parallel.behavior.session import Guest, SelectedRun, selected_run_spec
from codeflash_parallel.model.workspace import Limits, Workspace
from codeflash_parallel.process.guest import guest_command

#: More failing tests than this are not run again: one is enough to look at.
_TESTS = 5
#: Where the guest's records go when pytest's own output is what one wants to see.
_HIDDEN_RECORDS = ("3", " 3>/dev/null")
#: Where they go when they are the answer: the replayed call, its value, its arguments afterwards.
_SHOWN_RECORDS = ("1", "")


def reproduction(guest: Guest, baseline: Baseline, workspace: Workspace, outcome: CheckOutcome) -> str:
    """Write a spec beside the slot's tree and return the shell command that runs it.

    A differing call is replayed alone and printed as a JSON record; otherwise the failing tests are run. Sets
    have the order that they had: the hash seed is that of the workspace.
    """
    difference = outcome.difference
    if difference is not None and difference.call in baseline.known.all:
        call = (difference.call,)
        captured, derived = ((), call) if difference.derived else (call, ())
        made = (baseline.derived_inputs, derived)
        spec = replay_spec(guest, baseline.inputs, (), captured, texts=call, derived=made)
        descriptor, redirection = _SHOWN_RECORDS
    else:
        failing = (*outcome.tests.failed_ids, *outcome.tests.missing_ids)[:_TESTS]
        run = SelectedRun(only=failing or None)
        spec = {**selected_run_spec(guest, workspace, baseline, run), "summary": True}
        descriptor, redirection = _HIDDEN_RECORDS
    command = guest_command(workspace, spec, Limits(wall_s=0), guest.directory)
    words = [descriptor if word == "{records}" else word for word in command.argv]
    seed = f"PYTHONHASHSEED={workspace.environment['PYTHONHASHSEED']}"
    return shlex.join(["env", seed, *words]) + redirection
