"""A stand-in for the runner's mode `arm`: speaks the protocol, burns CPU, and misbehaves on request.

Used as `<runner_dir>/_codeflash_runner/__main__.py`. The spec's "fake" field: {"loops": per call, "act": name}.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

ACTS = (
    "",
    "crash",
    "crash once",
    "hang",
    "wrong",
    "wrong in many calls",
    "wrong in twins",
    "sleep",
    "children",
    "cache",
    "no-ready",
    "garbage",
    "random",
    "foreign",
    "nameless",
    "countless",
    "litter",
    "leak",
    "defer",
    "import",
    "endless",
    "stuck at its start",
    "stuck in a fork",
    "stuck before go",
    "stuck in a check",
)

#: CPU that the acts "defer" and "import" spend outside of their calls, in loops.
ELSEWHERE = {"defer": 40_000, "import": 4_000_000}

#: An arm that is wrong in many calls makes more than so many of each input.
MANY = 3


def burn(loops):
    total = 0
    for i in range(loops):
        total += i & 3
    return total


def main():
    spec = json.loads(Path(sys.argv[1]).read_text())
    fake = spec["fake"]
    act = fake.get("act", "")
    control = os.fdopen(int(sys.argv[3]), "r+b", buffering=0)
    read = control.readline

    def say(t, **fields):
        control.write(json.dumps(dict(fields, t=t)).encode() + b"\n")

    if act == "no-ready":
        os.write(int(sys.argv[2]), b'{"t":"error","where":"spec","message":"cannot import the target"}\n')
        sys.exit(70)
    if act == "import":
        burn(ELSEWHERE[act])
    if act == "stuck at its start":
        time.sleep(3600)
    calls = "many" if act == "countless" else [len(g["calls"]) for g in spec["groups"]]
    say("ready", groups=len(spec["groups"]), calls=calls, twins=[0] * len(calls))
    while True:
        line = read()
        if not line:
            return
        order = json.loads(line)
        if order["op"] == "quit":
            return
        pid = os.fork()
        if pid == 0:
            try:
                unit(order, read, say, fake, act, len(spec["groups"][0]["calls"]))
            finally:
                os._exit(1)
        _, status, usage = os.wait4(pid, 0)
        say("reaped", cpu_ns=int((usage.ru_utime + usage.ru_stime) * 1e9), status=status)


def unit(order, read, say, fake, act, inputs):
    if order["core"] is not None:
        os.sched_setaffinity(0, {order["core"]})
    if act == "stuck in a fork":
        time.sleep(3600)
    say("unit", pid={"foreign": 1, "nameless": "mine"}.get(act, os.getpid()))
    seen = set()
    group = calls = 0
    twins = False
    while True:
        request = json.loads(read())
        if request["op"] == "end":
            os._exit(0)
        if request["op"] == "check":
            if act == "stuck in a check":
                time.sleep(3600)
            if act == "defer":
                burn(ELSEWHERE[act])
            wrong = act == "wrong" or (act == "wrong in many calls" and calls > MANY * inputs)
            wrong |= act == "wrong in twins" and twins
            distinct = calls if twins else min(calls, inputs)
            encoded = min(distinct, request["most"]) if request["lot"] else distinct
            text = f"{group} {encoded} {os.urandom(4).hex() if act == 'random' else wrong}"
            say("checked", digest=hashlib.sha256(text.encode()).hexdigest(), ns=0, raised=False)
            continue
        group, calls, twins = request["group"], request["calls"], request["twins"]
        if act == "stuck before go" and calls:
            time.sleep(3600)
        say("armed")
        assert json.loads(read())["op"] == "go"
        start = request["start"]
        for i in range(start, start + calls):
            call(fake["loops"][group], act, (group, i % inputs), seen, order["unit"])
        say("garbage" if act == "garbage" and calls else "done")


def noted(key, folder=None):
    """Note a key in a file, which no race tidies up if it is in another folder; return whether it was there."""
    note = Path(folder or os.environ["TMPDIR"], "cache", str(key))
    if note.exists():
        return True
    note.parent.mkdir(exist_ok=True)
    note.write_text("seen")
    return False


def is_to_crash(act, number):
    if act == "crash once" and number == 1:
        return not noted("crash", Path(os.environ["TMPDIR"]).parent)
    return act == "crash" and number > 0


def call(loops, act, key, seen, number):
    if act == "litter" and noted(key):
        return
    if is_to_crash(act, number):
        os.kill(os.getpid(), 11)
    elif act == "leak":
        if os.fork() == 0:
            os._exit(0)
    elif act == "endless" or (act == "hang" and number > 0):
        time.sleep(3600)
    elif act == "sleep":
        time.sleep(0.0005)
    elif act == "children":
        pid = os.fork()
        if pid == 0:
            burn(loops)
            os._exit(0)
        os.waitpid(pid, 0)
    elif act == "cache" and key in seen:
        return
    else:
        seen.add(key)
        burn(loops)


main()
