"""Confine this process before the first line of the project's (or a candidate's) code.

For callers, inside the runner
-----------------------------

``confine(spec)``
    In a process that is going to run a candidate's code. It has one thread and has read everything that lies
    in the private folder (its spec, its secrets): at `sandbox` that folder is a new, empty one afterwards,
    with the spec's file in it. **At `sandbox` the process that returns is another one**: process 2 of a
    new process namespace. The caller has become its *waiter*, which ends with the same status or by the same
    signal; between them stands the namespace's init (`namespaces`). Descriptors are inherited by the runner;
    waiter and init close theirs.
``confine_and_tell(spec, channel)``
    The same for a runner that has its records' channel: they go on, and say how long it took.
``confine_template(spec)``
    In a process that never runs a candidate's code and forks those that do, such as a warm server or an arm:
    the same world, but no process namespace, so that its forks can become the launcher's children, and the
    private folder and our cache as they are, because specs of its forks appear there later. Each fork calls
    ``confine(spec, template=True)``.
``policy_of(spec)``
    What is asked for: `spec["isolation"]`, or nothing (level `none`).

The policy (`result.isolation_policy.IsolationPolicy.as_spec`) is plain JSON::

    {"level": "sandbox", "network": false, "writable": [...], "hidden": [...], "cache": "...",
     "limits": {"file_bytes": 0, "open_files": 0, "processes": 0, "data_bytes": 0, "disk_bytes": 0}}

`hidden` is never readable (the checkout, secrets), `cache` is ours: of it a check sees its own tree,
its private folder, the runner's modules and the inputs that its spec names. A limit of 0 is none.

Raises `ConfinementError`, never anything else: the process then ends without running the project's code.
"""

import contextlib
import os
import resource
import sys
import time

from .. import slot_paths
from . import landlock, mount_view, namespaces, syscalls

NONE, LANDLOCK, SANDBOX = "none", "landlock", "sandbox"

#: Namespaces of a check besides those of users and processes; a template has a network's, too, which its
#: forks share where it serves one slot.
_CHECK = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWPID
_TEMPLATE = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC
#: Folders that programs share with all others: new and empty at `sandbox`; `landlock` leaves the last one.
_SHARED = ("/tmp", "/var/tmp", "/dev/shm")
_DEVICES = ("null", "zero", "full", "tty", "ptmx", "pts", "mqueue")
#: An inode of a folder in memory takes about this much of it.
_BYTES_PER_FILE = 4096
#: Where no limit is asked for: folders in memory may take half of it, as usual, and so many files.
_DISK_BYTES, _MOST_FILES = 1 << 30, 1 << 18


class ConfinementError(Exception):
    """This process cannot be confined; the message names the refused call."""

    where = "isolation"


def policy_of(spec):
    """Return the policy of a spec; None at `none`."""
    policy = spec.get("isolation")
    return None if policy is None or policy["level"] == NONE else policy


def confine(spec, *, template=False):
    """Confine a check; see above.

    Args:
        spec: the runner's.
        template: it was forked by a process that `confine_template` has confined.

    Raises:
        ConfinementError: it cannot be done.
    """
    limit((spec.get("isolation") or {}).get("limits", {}))
    with _refusals(policy_of(spec)) as policy:
        if policy is not None:
            _confine(spec, policy, template)


def confine_and_tell(spec, channel, *, template=False):
    """Confine a check whose records go on in the process that returns, and record how long that took.

    Raises:
        ConfinementError: it cannot be done.
    """
    started = time.perf_counter_ns()  # which all processes share
    with channel.through_forks():
        confine(spec, template=template)
    channel.write("timing", name="isolation", ns=time.perf_counter_ns() - started)


def confine_template(spec):
    """Confine a process that forks checks; see above.

    Raises:
        ConfinementError: it cannot be done.
    """
    with _refusals(policy_of(spec)) as policy:
        if policy is not None:
            _confine_template(spec, policy)


@contextlib.contextmanager
def _refusals(policy):
    try:
        yield policy
    except (OSError, AttributeError) as error:
        raise ConfinementError("%s is refused: %s" % (policy["level"], error)) from error


def limit(limits):
    """Set resource limits, never above what is allowed already, and forbid core files."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, number in (
        ("file_bytes", resource.RLIMIT_FSIZE),
        ("open_files", resource.RLIMIT_NOFILE),
        ("data_bytes", resource.RLIMIT_DATA),
    ):
        _lower(number, limits.get(name, 0))


def _lower(number, value):
    hard = resource.getrlimit(number)[1]
    if value and (hard == resource.RLIM_INFINITY or value < hard):
        resource.setrlimit(number, (value, value))


def _confine(spec, policy, template):
    if policy["level"] == SANDBOX:
        _enter_namespaces(spec, policy, template)
        namespaces.fork_inside()
        mount_view.fresh_proc()
        # Exact in a user namespace only: elsewhere it counts all processes of the user.
        _lower(resource.RLIMIT_NPROC, policy["limits"].get("processes", 0))
    _restrict(spec, policy, template)
    os.chdir(spec["project"])  # by its name: the folder that we were in lies outside of what can be seen now


def _confine_template(spec, policy):
    if policy["level"] == SANDBOX:
        namespaces.leave(_TEMPLATE | (0 if policy["network"] else syscalls.CLONE_NEWNET))
        view = mount_view.MountView(*_room(policy))
        view.cover(policy["hidden"])
        view.keep(_environment(spec))
        # A process that enters another user namespace writes its user's number there.
        view.keep(["/proc", policy["cache"], spec["runner"]], writable=True)
        for folder in (spec["root"], spec["private"]):
            view.keep([folder], writable=True, source=host_path(spec, folder))
        view.keep(policy["writable"], writable=True)
        for folder in _SHARED:
            view.renew(folder, 0o1777)
        view.enter()
        namespaces.give_up_capabilities(template=True)
        syscalls.no_new_privileges()
        os.chdir(spec["project"])
        return  # without Landlock, under which no fork could mount anything
    syscalls.no_new_privileges()
    visible = [*_environment(spec), policy["cache"], spec["root"], spec["private"], spec["runner"]]
    readable = landlock.around(_real(policy["hidden"]), visible)
    landlock.restrict(_writable(spec, policy), readable, network=_may_connect(policy))


def _enter_namespaces(spec, policy, template):
    # A template of one slot has one fork at a time: its network is theirs, too.
    is_shared = template and not spec.get("mounts")
    network = 0 if is_shared or policy["network"] else syscalls.CLONE_NEWNET
    # For the processes that tests start; and for pytest, the configuration of a project that has none.
    texts = _contents(spec, [spec["path"], os.path.join(spec["private"], "pytest.ini")])
    namespaces.leave(_CHECK | network)
    view = mount_view.MountView(*_room(policy))
    view.cover([policy["cache"]] if template else [*policy["hidden"], policy["cache"]])
    view.keep([*_environment(spec), *_inputs(spec)[0], spec["runner"]])
    view.keep([*_inputs(spec)[1], *policy["writable"]], writable=True)
    view.keep([spec["root"]], writable=True, source=host_path(spec, spec["root"]))
    for folder in _SHARED:
        view.renew(folder, 0o1777)
    private = host_path(spec, spec["private"])
    folders = [entry.name for entry in os.scandir(private) if entry.is_dir()]
    view.renew(spec["private"], 0o700)
    view.enter()
    for name in folders:
        os.mkdir(os.path.join(spec["private"], name), 0o700)
    for path, text in texts.items():
        with open(path, "wb") as file:
            file.write(text)


def _restrict(spec, policy, template):
    """Apply what Landlock can; a fork does so again, so that it cannot reach its template by signals."""
    if policy["level"] == SANDBOX:
        namespaces.give_up_capabilities()
    syscalls.no_new_privileges()
    if not syscalls.landlock_abi():
        if policy["level"] == LANDLOCK:
            raise OSError("this kernel has no Landlock")
        return
    readable = None
    if policy["level"] == LANDLOCK:
        hidden = _real([policy["cache"]] if template else [*policy["hidden"], policy["cache"]])
        read, changed = _inputs(spec)
        visible = [*_environment(spec), spec["root"], spec["private"], spec["runner"], *read, *changed]
        readable = landlock.around(hidden, visible)
    landlock.restrict([*_writable(spec, policy), *_inputs(spec)[1]], readable, network=_may_connect(policy))


def _writable(spec, policy):
    devices = ["/dev/" + name for name in _DEVICES]
    shared = _SHARED if policy["level"] == SANDBOX else _SHARED[-1:]
    return [spec["root"], spec["private"], *shared, *devices, *policy["writable"]]


def _inputs(spec):
    """Return what lies in our cache for this runner: files that it reads, and folders that it writes to."""
    reads = [path for path, _ in spec.get("encoders", ())]
    makes = {"inputs": spec.get("wrap") == "capture", "derived": spec["mode"] == "derive", "base": False}
    makes["twins"] = spec["mode"] == "twins"
    files = {name: spec.get(name) or "" for name in makes}
    reads += [path for name, path in files.items() if path and not makes[name]]
    return reads, [os.path.dirname(path) for name, path in files.items() if path and makes[name]]


def _environment(spec):
    """Return the folders of the interpreter, wherever they lie: also below what is hidden.

    Among them is where `.pth` files have led it, but for the user's checkout itself.
    """
    roots = slot_paths.both_forms(spec["user_root"])
    ours = [*slot_paths.both_forms(spec["root"]), *slot_paths.both_forms(policy_of(spec)["cache"])]
    found = [
        *slot_paths.environment(roots),
        *(path for path in sys.path if _is_packages(path, roots, ours)),
    ]
    return [folder for folder in dict.fromkeys(found) if os.path.exists(folder)]


def _is_packages(path, roots, ours):
    if not os.path.isabs(path) or _is_under(path, ours):
        return False
    if "/site-packages" in path:
        return True
    return not _is_under(path, roots) and not any(slot_paths.under(root, path) for root in roots)


def _is_under(path, folders):
    return any(slot_paths.under(form, folder) for form in slot_paths.both_forms(path) for folder in folders)


def _may_connect(policy):
    """Say whether Landlock is to allow TCP: a network namespace has no other machine to connect to."""
    return policy["network"] or policy["level"] == SANDBOX


def _real(paths):
    return [os.path.realpath(path) for path in paths]


def _room(policy):
    size = policy["limits"].get("disk_bytes", 0) or _DISK_BYTES
    return size, min(max(size // _BYTES_PER_FILE, 1024), _MOST_FILES)


def host_path(spec, path):
    """Return where a file or folder of the slot lies, outside of every sandbox."""
    for seen, source in spec.get("mounts", {}).items():
        if slot_paths.under(path, seen):
            return source + path[len(seen) :]
    return path


def _contents(spec, paths):
    texts = {}
    for path in paths:
        place = host_path(spec, path)
        if os.path.isfile(place):
            with open(place, "rb") as file:
                texts[path] = file.read()
    return texts
