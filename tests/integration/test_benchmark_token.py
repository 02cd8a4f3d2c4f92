"""The host's benchmark token, among tasks and among processes."""

from __future__ import annotations

import subprocess
import sys
import uuid

import anyio
import pytest

from codeflash_parallel.process.host_lock.benchmark_token import hold_benchmark_token
from codeflash_parallel.result.errors import EnvironmentFault

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

HOLDER = """
import anyio, sys
from codeflash_parallel.process.host_lock.benchmark_token import hold_benchmark_token

async def main():
    async with hold_benchmark_token(30, name=sys.argv[1]):
        print("held", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.fixture
def name():
    """A token of this test's own."""
    return f"codeflash-parallel/test/{uuid.uuid4().hex}"


@pytest.fixture
def holder(name):
    """Another process that has the token."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, name], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


async def test_one_at_a_time(name):
    inside, most = 0, 0

    async def race() -> None:
        nonlocal inside, most
        async with hold_benchmark_token(60, name=name):
            inside += 1
            most = max(most, inside)
            await anyio.sleep(0.001)  # gives the others a chance to be wrong
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(race)
    assert (inside, most) == (0, 1)


async def test_a_busy_token_says_who_has_it(name, holder):
    with pytest.raises(EnvironmentFault) as caught:
        async with hold_benchmark_token(0.1, name=name):
            pass
    assert caught.value.code == "BENCHMARK_TOKEN_BUSY"
    assert f"{holder.pid}" in caught.value.message


async def test_death_of_the_holder_frees_it(name, holder):
    async with anyio.create_task_group() as tasks:
        got = anyio.Event()

        async def wait() -> None:
            async with hold_benchmark_token(60, name=name):
                got.set()

        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert not got.is_set()
        holder.kill()
        with anyio.fail_after(30):
            await got.wait()


async def test_waiting_can_be_cancelled(name, holder):
    with anyio.move_on_after(0.05) as scope:
        async with hold_benchmark_token(60, name=name):
            pytest.fail("it is not free")
    assert scope.cancelled_caught
    assert holder.poll() is None


async def test_it_is_free_again_after_an_error(name):
    with pytest.raises(KeyError):
        async with hold_benchmark_token(1, name=name):
            raise KeyError("inside")
    async with hold_benchmark_token(0, name=name):
        pass
