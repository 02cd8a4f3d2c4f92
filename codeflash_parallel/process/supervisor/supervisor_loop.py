"""The launcher's loop: take orders from the evaluator, start children, reap, watch, kill, report.

Theory of operation. One thread, one `poll`. It wakes for an order, for the death of a child or an orphan
(SIGCHLD through a wake-up pipe), and when some job's next look is due. The evaluator is gone when its end of
the socket is closed or its process has ended (a fork of the evaluator may hold the socket open), which a
descriptor of that process tells at once; then every tree is killed and the loop ends. A death signal would
not do: it comes when the *thread* ends that has started us.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from collections import deque

from codeflash_parallel.process import process_table
from codeflash_parallel.process.message_frames import (
    CONTROL_FD,
    GO,
    MARKER,
    RECORDS_FD,
    FrameDecoder,
    Message,
    pack,
)
from codeflash_parallel.process.supervisor import spawner
from codeflash_parallel.process.supervisor.supervised_job import JobMembership, JobPhase, SupervisedJob

#: How often an idle launcher makes sure that its parent is still there.
_IDLE_S = 1.0
_DESCRIPTOR = struct.Struct("i")
#: Room for the descriptors that one order may bring along.
_EXTRA_BYTES = socket.CMSG_LEN(8 * _DESCRIPTOR.size)
#: Names of the descriptors in an order, and their numbers in the child.
_NUMBERS = {"stdout": 1, "stderr": 2, "records": RECORDS_FD, "control": CONTROL_FD}


def main() -> None:
    """Run a launcher until its evaluator is gone; tell the evaluator about a defect before dying of it.

    The arguments of the process are the number of our end of the socket pair, and the evaluator's pid.
    """
    descriptor, parent = map(int, sys.argv[1:])
    os.set_inheritable(descriptor, False)
    link = socket.socket(fileno=descriptor)
    try:
        spawner.adopt_orphans()
        spawner.settle_signals()
        Supervisor(link, parent).run()
    except BaseException:
        import traceback

        link.sendall(pack({"t": "fault", "message": traceback.format_exc()[-4000:]}))
        raise


def _descriptors(raw: bytes) -> list[int]:
    whole = len(raw) - len(raw) % _DESCRIPTOR.size  # a truncated message may end anywhere
    return [number for (number,) in _DESCRIPTOR.iter_unpack(raw[:whole])]


def _watch_of(pid: int) -> int | None:
    """Return a descriptor that is ready once a process has ended; `None` where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except (OSError, AttributeError):  # gone already: `getppid` says so; or a kernel before 5.3
        return None


class Supervisor:
    """Own every job of one launcher."""

    def __init__(self, link: socket.socket, parent: int) -> None:
        self._link = link
        self._parent = parent
        self._frames = FrameDecoder()
        self._batches: deque[list[int]] = deque()
        self._jobs: dict[int, SupervisedJob] = {}
        self._membership = JobMembership(self._jobs)
        self._leaving = False
        self._null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        self._wake, wake_sink = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # a handler is what makes the pipe work
        signal.set_wakeup_fd(wake_sink, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        self._watch = _watch_of(parent)
        if self._watch is not None:
            self._poll.register(self._watch, select.POLLIN)

    def run(self) -> None:
        """Serve until the evaluator is gone and no job is left."""
        self._tell({"t": "ready", "pid": os.getpid(), "top_tag": spawner.top_tag()})
        try:
            while not self._leaving or self._jobs:
                self._turn()
        finally:
            self._kill_everybody()

    def _turn(self) -> None:
        ready = {descriptor for descriptor, _ in self._poll.poll(self._pause_s() * 1000)}
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 4096)
        self._reap()  # before orders: what has ended by itself is not killed
        if self._link.fileno() in ready and not self._leaving:
            self._receive()
        if os.getppid() != self._parent:
            self._leave()
        self._step()

    def _pause_s(self) -> float:
        due = min((job.next_look_s for job in self._jobs.values()), default=float("inf"))
        return min(max(due - time.monotonic(), 0.0), _IDLE_S)

    # --- orders ----------------------------------------------------------------------------------------

    def _receive(self) -> None:
        # socket.recv_fds ignores its flags, and children must not inherit each other's pipes.
        try:
            data, extras, flags, _ = self._link.recvmsg(65536, _EXTRA_BYTES, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            data, extras, flags = b"", [], 0
        if extras or flags & socket.MSG_CTRUNC:
            self._batches.append([descriptor for _, _, raw in extras for descriptor in _descriptors(raw)])
        if not data:
            self._leave()
        for order in self._frames.feed(data):
            self._obey(order)

    def _obey(self, order: Message) -> None:
        match order["op"]:
            case "start":
                self._start(order, self._batches.popleft())
            case "adopt":
                self._adopt(order, self._batches.popleft())
            case "kill" if order["job"] in self._jobs:
                self._jobs[order["job"]].kill("killed", order["why"])
            case "rest" if order["job"] in self._jobs:
                self._jobs[order["job"]].rest()
            case "quit":
                self._leave()

    def _leave(self) -> None:
        if not self._leaving:
            self._leaving = True
            self._poll.unregister(self._link)
            if self._watch is not None:  # ready for ever from now on
                self._poll.unregister(self._watch)
        for job in self._jobs.values():
            job.kill("killed", "the evaluator is gone")

    def _start(self, order: Message, descriptors: list[int]) -> None:
        try:  # fewer than announced (a ValueError): our table of open files is full
            self._launch(order, dict(zip(order["descriptors"], descriptors, strict=True)))
        except (OSError, ValueError) as error:
            self._not_started(order, str(error))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _launch(self, order: Message, descriptors: dict[str, int]) -> None:
        plan = spawner.SpawnPlan(
            argv=tuple(order["argv"]),
            cwd=order["cwd"],
            environment={**order["environment"], MARKER: order["marker"]},
            descriptors={0: self._null, **{_NUMBERS[name]: fd for name, fd in descriptors.items()}},
            tag=order["tag"],
        )
        pid, errors = spawner.spawn(plan)
        self._take_on(order, pid, errors)

    def _adopt(self, order: Message, descriptors: list[int]) -> None:
        """Make a process that a template has forked for us a job of its own, and let it go on."""
        pid = order["pid"]
        if self._membership.is_main(pid) or not spawner.is_living_child(pid):
            self._not_started(order, f"process {pid} is gone, or not the launcher's child")
        elif not descriptors:
            self._not_started(order, "our table of open files is full")
        else:
            self._membership.forget(pid)
            self._take_on(order, pid, None)
            with contextlib.suppress(BrokenPipeError):  # it has ended meanwhile
                os.write(descriptors[0], GO)
        for descriptor in descriptors:
            os.close(descriptor)

    def _take_on(self, order: Message, pid: int, errors: int | None) -> None:
        number = order["job"]
        self._jobs[number] = SupervisedJob(order, pid, errors, self._membership)
        self._tell({"t": "started", "job": number, "pid": pid})

    def _not_started(self, order: Message, message: str) -> None:
        self._tell({"t": "ended", "job": order["job"], "ended": "not_started", "message": message})

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # then the next turn sees its end
            self._link.sendall(pack(message))

    # --- processes -------------------------------------------------------------------------------------

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
                if not pid:
                    return
                self._account(pid, status, usage)

    def _account(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        for job in self._jobs.values():
            if pid == job.pid:
                job.main_exited(status, usage)
                continue
            job.orphan_ended()
            if pid in job.known:
                job.orphans_cpu_s += usage.ru_utime + usage.ru_stime

    def _step(self) -> None:
        now = time.monotonic()
        for job in list(self._jobs.values()):
            if job.next_look_s <= now:
                job.step()
            if job.phase is JobPhase.DONE:
                del self._jobs[job.number]
                self._tell(job.report())
        if not self._jobs:
            self._sweep()

    def _sweep(self) -> None:
        """With no job left, nobody may be: orphans that hid from everything are killed here."""
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                self._kill_everybody()

    def _kill_everybody(self) -> None:
        for proc in process_table.descendants(os.getpid()):
            if not proc.gone:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(proc.pid, signal.SIGKILL)
