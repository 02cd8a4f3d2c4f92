"""Who belongs to which job, looked at from a small subreaper."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import codeflash_parallel

#: Where the package lies.
ROOT = Path(codeflash_parallel.__file__).parents[1]

SUBREAPER = """
import json, os, signal, sys, time
sys.path.append(sys.argv[1])
from codeflash_parallel.process import process_table
from codeflash_parallel.process.supervisor import spawner
from codeflash_parallel.process.supervisor.supervised_job import JobMembership, SupervisedJob

if sys.argv[2] == "without a list of children":
    process_table.own_children = lambda: None
spawner.adopt_orphans()

def start(work):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        work(writing)
        signal.pause()
    os.read(reading, 1)
    return pid

def simple(writing):
    os.write(writing, b"x")

def with_orphan(writing):
    if os.fork() == 0:
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    os.wait()
    os.write(writing, b"x")

jobs = {}
census = JobMembership(jobs)
limits = {"marker": "", "tag": 0, "cpu_s": 0, "wall_s": 60, "memory_bytes": 0}
for number, work in enumerate([simple, with_orphan], 1):
    pid = start(work)
    jobs[number] = SupervisedJob({"job": number, **limits}, pid, None, census)

def seen():
    return [len(census.fresh(jobs[number])) for number in (1, 2)]

told = [seen()]
for job in jobs.values():
    os.kill(job.pid, signal.SIGKILL)
    os.waitpid(job.pid, 0)
told.append(seen())
(orphan,) = census.fresh(jobs[2])
os.kill(orphan.pid, signal.SIGKILL)
os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
told.append(seen())
os.waitpid(orphan.pid, 0)
told.append(seen())
print(json.dumps(told))
"""


@pytest.mark.parametrize("way", ["with a list of children", "without a list of children"])
def test_everybody_is_seen_until_he_is_reaped(way):
    script = [sys.executable, "-I", "-S", "-c", SUBREAPER, str(ROOT), way]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # both run, the second with an orphan; only the orphan; its zombie; nobody
    assert json.loads(done.stdout) == [[1, 2], [0, 1], [0, 1], [0, 0]]
