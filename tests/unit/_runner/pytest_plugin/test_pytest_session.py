"""Arguments of a session."""

from __future__ import annotations

from codeflash_parallel._runner.pytest_plugin.pytest_session import arguments


def test_our_arguments_come_before_what_is_no_option() -> None:
    spec = {"private": "/own", "args": ["-q", "--", "-odd.py"]}
    assert arguments(spec) == ["-q", "-o", "cache_dir=/own/pytest-cache", "--", "-odd.py"]


def test_workers_load_the_plugin() -> None:
    given = arguments({"private": "/own", "workers": 2})
    assert given[-2:] == ["-p", "_codeflash_runner.pytest_plugin.pytest_session"]
