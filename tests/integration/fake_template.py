"""A stand-in for the runner's serving: speaks the template's protocol, forks, and misbehaves on request.

Started as ``fake_template.py <spec> <records> <control>``. The spec's "act" says how the template behaves,
"hoard" how many bytes it holds; the "code" of a fork's spec is what the fork runs, with `records` in scope.
"""

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path

ACTS = (
    "",
    "unfit",
    "dies-before",
    "never-ready",
    "garbage",
    "refuses",
    "silent",
    "dies-when-asked",
    "dies-after-the-fork",
    "kills-its-fork",
    "lies",
    "fork-does-not-begin",
    "next-never-ready",
)
MARKER = "CODEFLASH_PARALLEL_JOB"
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class Control:
    """The template's end of the line channel."""

    def __init__(self, descriptor):
        self._socket = socket.socket(fileno=descriptor)

    def say(self, t, **fields):
        self._socket.sendall(json.dumps(dict(fields, t=t)).encode() + b"\n")

    def hear(self):
        data, ends = b"", []
        while not data.endswith(b"\n"):
            more, received, _, _ = socket.recv_fds(self._socket, 65536, 8)
            if not more:
                os._exit(0)
            data += more
            ends += received
        return json.loads(data), ends


def main():
    spec = json.loads(Path(sys.argv[1]).read_text())
    act = spec["act"]
    assert act in ACTS
    hoard = b"x" * spec.get("hoard", 0)
    if act == "dies-before":
        os.write(int(sys.argv[2]), b'{"t":"error","message":"no target here"}\n')
        os._exit(70)
    serve(Control(int(sys.argv[3])), spec["serve"]["until"], act)
    assert hoard is not None


def serve(control, point, act):
    if act == "never-ready":
        signal.pause()
    control.say(
        "garbage" if act == "garbage" else "ready", point=point, unfit="a thread" if act == "unfit" else ""
    )
    while True:
        order, ends = control.hear()
        if order["op"] == "quit":
            os._exit(0)
        obey(control, order, ends, act)


def obey(control, order, ends, act):
    if act == "refuses":
        control.say("refused", order=order["order"], why="a thread was started")
        return
    if act == "silent":
        signal.pause()
    if act == "dies-when-asked":
        os.kill(os.getpid(), signal.SIGKILL)
    pid = 1 if act == "lies" else fork_twice(order, ends, act)
    for end in ends:
        os.close(end)
    if act == "kills-its-fork":
        kill(pid)
    elif act == "dies-after-the-fork":
        os.kill(os.getpid(), signal.SIGKILL)
    control.say("forked", order=order["order"], pid=pid)


def kill(pid):
    watch = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([watch], [], [])  # a process that is only dying may still take a byte from its gate
    os.close(watch)


def fork_twice(order, ends, act):
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        pid = os.fork()
        if pid:
            os.write(writing, str(pid).encode())
            os._exit(0)
        try:
            become(order, ends, act)
        finally:
            os._exit(1)
    os.close(writing)
    os.waitpid(middle, 0)
    pid = int(os.read(reading, 32))
    os.close(reading)
    return pid


def become(order, ends, act):
    os.setsid()
    mark(order["marker"], order["tag"])
    out, err, records, go = ends[:4]
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.dup2(records, int(sys.argv[2]))
    if act == "fork-does-not-begin":
        signal.pause()
    if not os.read(go, 1):
        os._exit(0)
    die_with_the_launcher()
    for end in ends[:4]:
        os.close(end)
    if order["until"]:
        os.dup2(ends[4], int(sys.argv[3]))
        os.close(ends[4])
        serve(Control(int(sys.argv[3])), order["until"], act.replace("next-", ""))
    os.close(int(sys.argv[3]))
    spec = json.loads(Path(order["spec"]).read_text())
    run(spec["code"], int(sys.argv[2]))


def mark(marker, tag):
    old = os.environ[MARKER].encode()
    assert len(old) == len(marker)
    stat = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    start, end = int(stat[47]), int(stat[48])
    with Path("/proc/self/mem").open("r+b", buffering=0) as memory:
        memory.seek(start)
        at = memory.read(end - start).index(MARKER.encode() + b"=" + old) + len(MARKER) + 1
        memory.seek(start + at)
        memory.write(marker.encode())
    os.environ[MARKER] = marker
    if tag:
        resource.setrlimit(resource.RLIMIT_MSGQUEUE, (tag, tag))


def die_with_the_launcher():
    launcher = os.getppid()  # the process in between is gone since before the order was answered
    libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != launcher:
        os._exit(0)


def run(code, records):
    status = 0
    try:
        exec(code, {"records": records})
    except SystemExit as end:
        status = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


main()
