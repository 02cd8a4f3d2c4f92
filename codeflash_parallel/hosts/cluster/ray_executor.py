"""Jobs on the nodes of a Ray cluster.

A node offers slots as the custom resource `codeflash_slot`. A check takes one of them; a race takes all of
its node, so that it has the node to itself. Messages are the items of a streaming generator.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from codeflash_parallel.hosts.cluster.host_job import HostTask, Message
from codeflash_parallel.hosts.cluster.host_process import messages_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Name of the resource that nodes offer.
RESOURCE = "codeflash_slot"
_OFFER = f"""ray start --address=… --resources='{{"{RESOURCE}": 4}}'"""
#: Seconds in which the head node has to take a connection.
_REACH_S = 5.0
#: Digits of a node's id in a host's name.
_DIGITS = 8


def run_on_node(job: str, bundles: list[Any]) -> Iterator[str]:
    """Execute a job in a process of this node, and yield its messages as JSON.

    Args:
        bundles: reference to the bundle of the snapshot, which is fetched where it is wanted.
    """
    import ray

    host = f"{os.uname().nodename}-{ray.get_runtime_context().get_node_id()[:_DIGITS]}"
    for message in messages_of(job, host, lambda: ray.get(bundles[0])):
        yield json.dumps(message)


class RayTask:
    """A job of Ray; a `hosts.cluster.host_job.HostTask`."""

    def __init__(self, items: Any) -> None:
        self._items = items
        self._is_over = False

    def messages(self) -> Iterator[Message]:
        """Yield messages until the last one."""
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        try:
            for item in self._items:
                message: Message = json.loads(ray.get(item))
                self._is_over = message["t"] in {"ended", "fault", "lost"}
                yield message
        except TaskCancelledError:
            return
        except RayTaskError as error:
            cause = error.cause or error
            yield {"t": "lost", "why": f"{type(cause).__name__}: {_line(str(cause), last=True)}"}
        except RayError as error:
            yield {"t": "lost", "why": f"{type(error).__name__}: {_line(str(error))}"}

    def cancel(self) -> None:
        """End the job; one that is over is left alone, and its process is kept for the next one."""
        import ray

        if not self._is_over:
            with suppress(Exception):  # its node is gone
                ray.cancel(self._items)


def _largest(nodes: Mapping[str, tuple[str, int]], job: str) -> str:
    """Return one of the hosts with the most slots: races of several runs do not all go to the same one."""
    most = max(slots for _, slots in nodes.values())
    hosts = sorted(host for host, (_, slots) in nodes.items() if slots == most)
    return hosts[zlib.crc32(job.encode()) % len(hosts)]


def _line(text: str, *, last: bool = False) -> str:
    """Return the first line of a text, or the last one."""
    lines = text.strip().splitlines() or [""]
    return lines[-1 if last else 0]


class RayExecutor:
    """The nodes of a Ray cluster; a `hosts.cluster.host_job.HostExecutor`.

    Args:
        address: of the cluster; empty: the one of this machine.

    Raises:
        UsageError: `NO_ENGINE`.
        EnvironmentFault: `NO_CLUSTER`.
    """

    def __init__(self, address: str) -> None:
        try:
            import ray
        except ImportError as error:
            hint = "Install it: pip install 'codeflash-parallel[ray]'."
            raise UsageError("NO_ENGINE", f"--executor ray needs Ray: {error}.", hint) from error
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(address)
        # A node that dies is our affair: the shard is submitted again without what is known.
        self._function = ray.remote(num_cpus=0, max_retries=0)(run_on_node)
        self._bundle: Any = None
        if not self.places(()):
            message = f"No node of the Ray cluster offers the resource {RESOURCE}."
            self.close()
            raise EnvironmentFault("NO_CLUSTER", message, f"Start nodes with slots: {_OFFER}.")

    def nodes(self) -> dict[str, tuple[str, int]]:
        """Return the id and the slots of every node that is alive and has some, by host."""
        import ray

        found = {}
        for node in ray.nodes():
            slots = int(node["Resources"].get(RESOURCE, 0))
            if node["Alive"] and slots:
                found[f"{node['NodeManagerHostname']}-{node['NodeID'][:_DIGITS]}"] = (node["NodeID"], slots)
        return found

    def hosts(self) -> tuple[str, ...]:
        """Return the nodes that offer slots."""
        return tuple(self.nodes())

    def places(self, avoid: Collection[str]) -> int:
        """Return the slots of all nodes but those to avoid."""
        return sum(slots for host, (_, slots) in self.nodes().items() if host not in avoid)

    def share(self, bundle: bytes) -> None:
        """Put a bundle into the object store: it comes once to each node that wants it."""
        import ray

        self._bundle = ray.put(bundle)

    def submit(self, job: str, *, is_race: bool, avoid: Collection[str], wanted: str = "") -> HostTask:
        """Submit a job; see `hosts.cluster.host_job.HostExecutor`."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        every = self.nodes()
        nodes = {host: node for host, node in every.items() if host not in avoid}
        if wanted and wanted not in nodes:
            raise EnvironmentFault("HOST_GONE", f"Host {wanted} is not there any more.")
        options: dict[str, Any] = {"resources": {RESOURCE: 1}}
        if is_race and not nodes:
            raise EnvironmentFault("NO_CLUSTER", "No node of the Ray cluster is left that could race.")
        if is_race or wanted:
            host = wanted or _largest(nodes, job)
            node, slots = nodes[host]
            options = {
                "resources": {RESOURCE: slots if is_race else 1},
                "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False),
            }
        elif avoid:
            options["label_selector"] = {
                "ray.io/node-id": f"in({','.join(node for node, _ in nodes.values())})"
            }
        return RayTask(self._function.options(**options).remote(job, [self._bundle]))

    def close(self) -> None:
        """Leave the cluster, if it was entered here."""
        import ray

        self._bundle = None
        if self._is_ours:
            ray.shutdown()


def _connect(address: str) -> None:
    """Connect to a cluster.

    Raises:
        EnvironmentFault: `NO_CLUSTER`, with what Ray says.
    """
    import logging

    import ray

    if address.startswith("ray://"):
        hint = "Run on one of its nodes, with --cluster HOST:PORT or without it."
        raise UsageError("BAD_SETTING", "Ray Client (ray://) carries no streams of messages.", hint)
    where = f"at {address}" if address else "on this machine"
    hint = "Start one with `ray start --head`, or name its address with --cluster."
    if why := _why_unreachable(address or os.environ.get("RAY_ADDRESS", "")):
        raise EnvironmentFault("NO_CLUSTER", f"There is no Ray cluster {where}: {why}.", hint)
    # Ray prints what its nodes say to standard output, where our document goes, and warnings to standard
    # error. What there is to say of a loss, we say.
    ray._private.worker._worker_logs_enabled = False  # noqa: SLF001 - there is no public switch
    logging.getLogger("ray").addHandler(logging.NullHandler())
    try:
        ray.init(address or "auto", log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        said = " ".join(str(error).split())
        if "ersion mismatch" in said:
            hint = (
                f"This process has Python {sys.version.split()[0]} and Ray {ray.__version__}: take the same."
            )
        raise EnvironmentFault("NO_CLUSTER", f"There is no Ray cluster {where}: {said}", hint) from error


def _why_unreachable(address: str) -> str:
    """Return why nothing listens at an address, a clause; empty: something does, or it is no address.

    Ray itself tries for more than a minute.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return ""
