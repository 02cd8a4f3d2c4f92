"""Jobs of Ray: without its package, and, where that is installed, on a cluster of one node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from host_jobs import refused_job

from codeflash_parallel.hosts.cluster.ray_executor import RESOURCE, RayExecutor
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

SLOTS = 2


def test_without_ray_there_is_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="--executor ray needs Ray") as caught:
        RayExecutor("")
    assert caught.value.code == "NO_ENGINE"
    assert "pip install 'codeflash-parallel[ray]'" in caught.value.hint
    assert "\n" not in str(caught.value)


@pytest.fixture
def node() -> Iterator[None]:
    """Start a cluster of one node in this process; the executor does not leave what it has not entered."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, resources={RESOURCE: SLOTS}, log_to_driver=False, include_dashboard=False)
    try:
        yield
    finally:
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_cluster_of_one_node(node: None) -> None:
    with closing(RayExecutor("")) as executor:
        ((host, (_, slots)),) = executor.nodes().items()
        assert slots == SLOTS
        assert executor.places(()) == SLOTS
        assert executor.places((host,)) == 0
        executor.share(b"bundle")
        for is_race, wanted in ((False, ""), (True, ""), (True, host)):
            task = executor.submit(refused_job(), is_race=is_race, avoid=(), wanted=wanted)
            (fault,) = task.messages()
            assert (fault["t"], fault["code"], fault["host"]) == ("fault", "OTHER_VERSION", host)
            task.cancel()
        with pytest.raises(EnvironmentFault) as caught:
            executor.submit(refused_job(), is_race=True, avoid=(), wanted="elsewhere")
        assert caught.value.code == "HOST_GONE"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_cluster_whose_nodes_offer_no_slots() -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
    try:
        with pytest.raises(EnvironmentFault, match=RESOURCE) as caught:
            RayExecutor("")
    finally:
        ray.shutdown()
    assert caught.value.code == "NO_CLUSTER"
