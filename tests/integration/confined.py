"""Run by `test_runner_confining`: confine this process as a spec says, then run a script of an attacker.

``python confined.py <runner's folder> <spec> <script> [template]``; with the last word, in a fork of a template.
"""

import json
import os
import sys

sys.path.append(sys.argv[1])

from _codeflash_runner.process import process_fork
from _codeflash_runner.sandbox import confinement

with open(sys.argv[2]) as file:  # noqa: PTH123 - as the runner does
    spec = json.load(file)
os.chdir(spec["root"])
try:
    if "template" in sys.argv:
        confinement.confine_template(spec)
        reading, writing = os.pipe()
        blocked, go = os.pipe()
        if process_fork.fork_twice():
            os.close(writing)
            os.write(go, b"g")
            os.read(reading, 1)  # until the fork has ended
            os._exit(0)
        os.close(reading)
        os.read(blocked, 1)  # now it has the parent that it is going to have
        confinement.confine(spec, template=True)
    else:
        confinement.confine(spec)
except confinement.ConfinementError as refused:
    sys.exit(f"unconfined: {refused}")
exec(compile(sys.argv[3], "attack", "exec"), {"spec": spec})
