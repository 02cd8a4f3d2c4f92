"""Folders that are none, or not ours to use: every way into a queue says so in the same words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from queue_lab import open_lab, request

from codeflash_parallel import AsyncEvalQueueClient, EnvironmentFault, EvalQueueClient, Settings, UsageError
from codeflash_parallel.queue.daemon.daemon import ServeOptions, open_daemon
from codeflash_parallel.queue.store.database import NAME

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


def file(base: Path) -> Path:
    (base / "file").touch()
    return base / "file"


def below_a_file(base: Path) -> Path:
    return file(base) / "queue"


def dangling(base: Path) -> Path:
    (base / "link").symlink_to(base / "nowhere")
    return base / "link"


def loop(base: Path) -> Path:
    (base / "link").symlink_to(base / "link")
    return base / "link" / "queue"


def too_long(base: Path) -> Path:
    return base / ("x" * 300)


def where_nobody_makes_folders(_base: Path) -> Path:
    return Path("/proc/queue")


FOLDERS = {
    file: "file is not a folder",
    below_a_file: "file is not a folder",
    dangling: "link is a link that leads nowhere",
    loop: "link is a link that leads nowhere",
    too_long: "File name too long",
    where_nobody_makes_folders: "No such file or directory",
}


@pytest.mark.parametrize(("make", "said"), FOLDERS.items())
async def test_a_folder_that_cannot_be_one_is_told_by_all(
    tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    folder = make(tmp_path)
    before = names_in(tmp_path)
    found = [await of_daemon(folder, tmp_path), of_client(folder), await of_async_client(folder)]
    for fault in found:
        assert fault.code == "QUEUE_UNFIT"
        assert said in fault.message
        assert str(folder) in fault.message
        assert "--queue-dir" in fault.hint
        assert "Errno" not in str(fault)
    assert names_in(tmp_path) == before


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def of_daemon(folder: Path, base: Path) -> EnvironmentFault:
    with pytest.raises(EnvironmentFault) as caught:
        async with open_daemon(ServeOptions(folder=folder, cache_dir=base / "cache")):
            pytest.fail("it started")
    return caught.value


def of_client(folder: Path) -> EnvironmentFault:
    with pytest.raises(EnvironmentFault) as caught, EvalQueueClient(folder) as client:
        client.submit(request("k"))
    return caught.value


async def of_async_client(folder: Path) -> EnvironmentFault:
    with pytest.raises(EnvironmentFault) as caught:
        async with AsyncEvalQueueClient(folder) as client:
            await client.submit(request("k"))
    return caught.value


@pytest.mark.parametrize("name", ["daemon.lock", "daemon.socket", "results", NAME])
async def test_what_is_in_the_way_in_the_folder_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "queue"
    with open_lab(folder) as lab:
        lab.submit()
    (folder / name).unlink(missing_ok=True)
    (folder / name).touch() if name == "results" else (folder / name).mkdir()
    fault = await of_daemon(folder, tmp_path)
    assert fault.code == "QUEUE_UNFIT"
    assert name == NAME or str(folder / name) in fault.message


def test_no_setting_holds_what_no_path_can() -> None:
    with pytest.raises(UsageError, match="queue_dir must not contain the character NUL"):
        Settings(queue_dir="/tmp/a\0b")
    with pytest.raises(UsageError, match="include_ignored must not contain"):
        Settings(include_ignored=("fine", "a\0b"))
