"""Run by `test_guest_confining`: confine this process as a spec says, then run a script of an attacker.

``python confined.py <guest's folder> <spec> <script> [template]``; with the last word, in a fork of a template.
"""

import json
import os
import sys

sys.path.append(sys.argv[1])

from _codeflash_guest import confining, forking

with open(sys.argv[2]) as file:  # noqa: PTH123 - as the guest does
    spec = json.load(file)
os.chdir(spec["root"])
try:
    if "template" in sys.argv:
        confining.confine_template(spec)
        reading, writing = os.pipe()
        blocked, go = os.pipe()
        if forking.fork_twice():
            os.close(writing)
            os.write(go, b"g")
            os.read(reading, 1)  # until the fork has ended
            os._exit(0)
        os.close(reading)
        os.read(blocked, 1)  # now it has the parent that it is going to have
        confining.confine(spec, template=True)
    else:
        confining.confine(spec)
except confining.Unconfined as refused:
    sys.exit(f"unconfined: {refused}")
exec(compile(sys.argv[3], "attack", "exec"), {"spec": spec})
