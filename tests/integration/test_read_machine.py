from __future__ import annotations

import os

import pytest

from codeflash_parallel.process import machine


def test_this_machine_can_be_read():
    read = machine.read_machine()
    assert read.cores == len(os.sched_getaffinity(0))
    assert 0 < read.quota_cores <= read.cores
    assert read.memory_bytes > 0
    assert read.load >= 0


@pytest.fixture
def groups(tmp_path, monkeypatch):
    def write(membership: str, files: dict[str, str]) -> machine.Machine:
        contents = {"proc/self/cgroup": membership, "proc/meminfo": "MemTotal: 1\nMemAvailable: 8388608 kB\n"}
        for name, text in {**contents, **{f"cgroup/{n}": t for n, t in files.items()}}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
        monkeypatch.setattr(machine, "_CGROUPS", tmp_path / "cgroup")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))
        return machine.read_machine()

    return write


def test_control_groups_of_version_2(groups):
    read = groups(
        "0::/a/b\n",
        {
            "a/cpu.max": "250000 100000\n",
            "a/b/cpu.max": "max 100000\n",
            "a/memory.max": "3000000000\n",
            "a/memory.current": "2000000000\n",
            "a/memory.stat": "anon 5\ninactive_file 500000000\n",
            "a/b/memory.max": "max\n",
        },
    )
    assert (read.cores, read.quota_cores, read.memory_bytes) == (16, 2.5, 1_500_000_000)


def test_control_groups_of_version_1(groups):
    read = groups(
        "4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n1:name=systemd:/\n",
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "memory/memory.limit_in_bytes": "4000000000\n",
            "memory/memory.usage_in_bytes": "1000000000\n",
            "memory/memory.stat": "total_inactive_file 7\n",
        },
    )
    assert (read.quota_cores, read.memory_bytes) == (16.0, 3_000_000_007)


def test_without_limits_what_is_available_counts(groups):
    assert groups("", {}).memory_bytes == 8 << 30
