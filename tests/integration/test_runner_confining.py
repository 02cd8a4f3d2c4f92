"""Attacks on the machine, at each level, and honest work that must go on."""

import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy, RunnerLimits
from codeflash_parallel.sandbox.runner_command import install_runner

_SCRIPT = Path(__file__).with_name("confined.py")
_LANDLOCK, _SANDBOX = IsolationLevel.LANDLOCK, IsolationLevel.SANDBOX
_MODES = ("new-process", "template")


class Lab:
    """A slot among others, a user's checkout, and processes confined in the slot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache, self.user = folder / "cache", folder / "user"
        slots = self.cache / "slots" / "run"
        self.tree, self.private = slots / "1" / "tree", slots / "1" / "private"
        self.other = slots / "2" / "tree"
        for place in (self.tree, self.private / "tmp", self.other, self.user):
            place.mkdir(parents=True)
        (self.user / "secret.py").write_text("SECRET = 1")
        (self.other / "secret.py").write_text("SECRET = 2")
        self.runner = install_runner(self.cache)
        self.policy = IsolationPolicy(hidden=(str(self.user),), cache=str(self.cache))

    def run(
        self,
        level: IsolationLevel,
        script: str,
        mode: str = "new-process",
        policy: IsolationPolicy | None = None,
        before: tuple[str, ...] = (),
        packages: tuple[Path, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        path = self.private / "spec.json"
        spec = {
            "mode": "tests",
            "root": str(self.tree),
            "project": str(self.tree),
            "private": str(self.private),
            "user_root": str(self.user),
            "runner": str(self.runner),
            "path": str(path),
            "isolation": replace(policy or self.policy, level=level).as_spec(),
        }
        path.write_text(json.dumps(spec))
        argv = [*before, sys.executable, str(_SCRIPT), str(self.runner), str(path), script, mode]
        environment = {**os.environ, "TMPDIR": str(self.private / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(map(str, packages))
        return subprocess.run(
            argv, capture_output=True, text=True, check=False, env=environment, timeout=60, cwd=self.folder
        )


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture(scope="module")
def why_not(tmp_path_factory: pytest.TempPathFactory) -> Callable[[IsolationLevel], str]:
    """Say why this machine does not have a level, in its own words."""

    @functools.cache
    def tried(level: IsolationLevel) -> str:
        said = Lab(tmp_path_factory.mktemp("probe")).run(level, "pass").stderr.strip()
        return said if said.startswith("unconfined") else ""

    return tried


@pytest.fixture(autouse=True)
def _works_here(request: pytest.FixtureRequest, why_not: Callable[[IsolationLevel], str]) -> None:
    level = request.node.callspec.params["level"]
    if why := why_not(level):
        pytest.skip(why)


at_every_level = pytest.mark.parametrize("level", [_LANDLOCK, _SANDBOX])
with_namespaces = pytest.mark.parametrize("level", [_SANDBOX])
both_modes = pytest.mark.parametrize("mode", _MODES)

_SAY = """
def said(attack):
    try:
        attack()
    except OSError as error:
        print("stopped")
    else:
        print("succeeded")
"""


@both_modes
@at_every_level
def test_nothing_outside_is_written_or_read(lab: Lab, level: IsolationLevel, mode: str) -> None:
    outside, secret, others = lab.folder / "outside", lab.user / "secret.py", lab.other / "secret.py"
    script = _SAY + (
        f"said(lambda: open({str(outside)!r}, 'w'))\n"
        f"said(lambda: open({str(secret)!r}).read())\n"
        f"said(lambda: open({str(others)!r}).read())\n"
        f"said(lambda: open({str(others)!r}, 'a'))\n"
    )
    done = lab.run(level, script, mode)
    # What is made in a temporary folder at `sandbox` is made in another one than ours.
    assert done.stdout.split()[1:] == ["stopped"] * 3, done.stderr
    assert not outside.exists()
    # The same without confinement: the attacks are real.
    assert lab.run(IsolationLevel.NONE, script).stdout.split() == ["succeeded"] * 4


@both_modes
@at_every_level
def test_honest_work_goes_on(lab: Lab, level: IsolationLevel, mode: str) -> None:
    script = """
import multiprocessing, os, socket, subprocess, sys, tempfile, threading
open("made.txt", "w").write("1")
os.mkdir("a"); os.mkdir("b"); open("a/x", "w").close(); os.rename("a/x", "b/x")
with tempfile.TemporaryDirectory() as folder:
    open(os.path.join(folder, "x"), "w").write("1")
multiprocessing.Lock().acquire()
subprocess.run([sys.executable, "-c", "import json, ctypes"], check=True, stdout=subprocess.DEVNULL)
os.openpty()
one, other = socket.socketpair()
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
child = os.fork()
if not child: os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
os.kill(os.getpid(), 0)
print(os.getcwd() == spec["root"], open("/dev/null").read() == "", os.path.exists(spec["path"]))
"""
    done = lab.run(level, script, mode)
    assert done.stdout.split() == ["thread", "True", "True", "True"], done.stderr
    assert (lab.tree / "made.txt").read_text() == "1"


@both_modes
@at_every_level
def test_no_listener_of_the_machine_is_reached(lab: Lab, level: IsolationLevel, mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        script = f"import socket\n{_SAY}\nsaid(lambda: socket.create_connection({address!r}, 5))"
        assert lab.run(level, script, mode).stdout == "stopped\n"
        allowed = replace(lab.policy, network=True)
        assert lab.run(level, script, mode, allowed).stdout == "succeeded\n"


@with_namespaces
def test_a_network_of_its_own_reaches_itself(lab: Lab, level: IsolationLevel) -> None:
    script = f"""
import socket
{_SAY}
server = socket.create_server(("127.0.0.1", 0))
said(lambda: socket.create_connection(server.getsockname(), 5))"""
    assert lab.run(level, script).stdout == "succeeded\n"


@both_modes
@at_every_level
def test_nobody_outside_is_killed(lab: Lab, level: IsolationLevel, mode: str) -> None:
    victim = subprocess.Popen(["sleep", "60"])
    try:
        script = f"import os\n{_SAY}\nsaid(lambda: os.kill({victim.pid}, 9))\nsaid(lambda: os.kill({os.getpid()}, 0))"
        done = lab.run(level, script, mode)
        assert done.stdout.split() == ["stopped"] * 2, done.stderr
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


@both_modes
@with_namespaces
def test_shared_folders_are_new_for_everybody(lab: Lab, level: IsolationLevel, mode: str) -> None:
    name = f"codeflash-parallel-test-{os.getpid()}-{mode}"
    script = f"""
import os
for folder in ("/tmp", "/var/tmp", "/dev/shm", os.environ["TMPDIR"]):
    path = os.path.join(folder, {name!r})
    print(os.path.exists(path))
    open(path, "w").write("for the next one")
"""
    for _ in range(2):
        assert lab.run(level, script, mode).stdout.split() == ["False"] * 4
    assert not any(Path(folder, name).exists() for folder in ("/tmp", "/var/tmp", "/dev/shm"))
    assert not (lab.private / "tmp" / name).exists()


@with_namespaces
def test_floods_of_the_disk_end(lab: Lab, level: IsolationLevel) -> None:
    limits = RunnerLimits(disk_bytes=4 << 20, file_bytes=8 << 20, open_files=64)
    script = f"""
import os, tempfile
{_SAY}
folder = tempfile.mkdtemp()
said(lambda: open(folder + "/flood", "wb").write(bytes(6 << 20)))
os.unlink(folder + "/flood")
said(lambda: [open(folder + "/%d" % number, "w").close() for number in range(2000)])
said(lambda: open("flood", "wb").write(bytes(9 << 20)))
said(lambda: [os.dup(0) for number in range(100)])
"""
    done = lab.run(level, script, policy=replace(lab.policy, limits=limits))
    assert done.stdout.split() == ["stopped"] * 4, done.stderr


@at_every_level
def test_a_flood_of_memory_ends(lab: Lab, level: IsolationLevel) -> None:
    limits = RunnerLimits(data_bytes=256 << 20)
    script = "try: bytearray(512 << 20)\nexcept MemoryError: print('stopped')"
    assert lab.run(level, script, policy=replace(lab.policy, limits=limits)).stdout == "stopped\n"


@with_namespaces
@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os._exit(7)", 7),
        ("os.kill(os.getpid(), 11)", -11),
        ("os.abort()", -6),
        ("os.kill(os.getpid(), 9)", -9),
    ],
)
def test_the_end_is_passed_on(lab: Lab, level: IsolationLevel, end: str, status: int) -> None:
    assert lab.run(level, f"import os\n{end}").returncode == status


@with_namespaces
def test_nobody_is_reached_by_number_and_no_mount_undone(lab: Lab, level: IsolationLevel) -> None:
    script = f"""
import ctypes, os
{_SAY}
print(os.getpid(), os.getppid(), sorted(int(n) for n in os.listdir("/proc") if n.isdigit()))
said(lambda: os.kill(1, 9))
libc = ctypes.CDLL(None, use_errno=True)
print(libc.umount2({str(lab.user)!r}.encode(), 2), libc.unshare(0x10000000 | 0x20000), libc.umount2({str(lab.user)!r}.encode(), 2))
print(os.path.exists({str(lab.user / "secret.py")!r}))
said(lambda: open("/proc/1/environ", "rb").read())
said(lambda: os.chmod({str(lab.runner)!r}, 0o700))
said(lambda: os.utime({str(lab.runner)!r}))
"""
    done = lab.run(level, script)
    words = done.stdout.splitlines()
    assert words[0] == "2 1 [1, 2]", done.stderr
    assert words[1] == "stopped"
    assert words[2].split()[0] == words[2].split()[2] == "-1"
    assert words[3:] == ["False", "stopped", "stopped", "stopped"]


_LEFT = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans are ours, as they are the launcher's
children = "/proc/self/task/%d/children" % os.getpid()
print(subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL))
(init,) = open(children).read().split()
(left,) = open("/proc/%s/task/%s/children" % (init, init)).read().split()
print(open("/proc/%s/comm" % init).read().strip(), open("/proc/%s/comm" % left).read().strip())
os.kill(int(init), 9)
os.waitpid(int(init), 0)
print(os.path.exists("/proc/" + left))
"""


@with_namespaces
def test_who_is_left_lives_until_he_has_been_seen(lab: Lab, level: IsolationLevel) -> None:
    script = """
import os
reading, writing = os.pipe()
if not os.fork():
    os.setsid()
    os.execvp("sleep", ["sleep", "600"])
os.close(writing)
os.read(reading, 1)  # until the child has become another program
os._exit(5)
"""
    done = lab.run(level, script, before=(sys.executable, "-c", _LEFT))
    assert done.stdout.splitlines() == ["5", "cfp-init sleep", "False"], done.stderr


@both_modes
@at_every_level
def test_packages_are_found_where_pth_files_lead_but_not_in_the_checkout(
    lab: Lab, level: IsolationLevel, mode: str
) -> None:
    """An environment of a moment's folder is kept; a link to the checkout leads nowhere."""
    packages = lab.folder / "packages"
    packages.mkdir()
    (packages / "elsewhere.py").write_text("FOUND = True")
    script = "import elsewhere\nprint(elsewhere.FOUND)\nimport secret\n"
    done = lab.run(level, script, mode, packages=(packages, lab.user))
    assert done.stdout == "True\n", done.stderr
    assert any(word in done.stderr for word in ("No module named 'secret'", "Permission denied"))


_SECOND_FORK_FAILS = """
import errno, itertools, os, sys
sys.path.append(sys.argv[1])
from _codeflash_runner.sandbox import namespaces, syscalls
forks, fork = itertools.count(), os.fork
def failing():
    if next(forks):
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()
namespaces._fork = failing
namespaces.leave(syscalls.CLONE_NEWPID)
try:
    namespaces.fork_inside()
except OSError as error:
    os.write(1, str(error).encode())
    os._exit(7)
"""


@with_namespaces
def test_a_runner_that_cannot_be_forked_says_so_and_everybody_ends_alike(
    lab: Lab, level: IsolationLevel
) -> None:
    assert level is _SANDBOX
    argv = [sys.executable, "-c", _SECOND_FORK_FAILS, str(lab.runner)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (7, "[Errno 11] Resource temporarily unavailable"), done
