"""The user's folders, and the user's name as a submitter."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.user_context import (
    RUN_OF,
    SUBMITTER,
    cache_root,
    queue_folder,
    run_of,
    submitter_of,
)
from codeflash_parallel.result.errors import EnvironmentFault, UsageError


def test_the_cache_is_where_the_setting_says_else_in_the_user_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root(Settings()) == tmp_path / "codeflash-parallel"
    assert cache_root(Settings(cache_dir=f"{tmp_path}/a/../b")) == tmp_path / "b"
    assert queue_folder(Settings(cache_dir=str(tmp_path))) == tmp_path / "queue"
    assert queue_folder(Settings(queue_dir=str(tmp_path / "q"))) == tmp_path / "q"


def test_without_a_home_a_cache_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(EnvironmentFault) as caught:
        cache_root(Settings())
    assert caught.value.code == "NO_CACHE"


def test_a_submitter_is_the_given_one_else_the_variable_s_else_the_user() -> None:
    assert submitter_of("ada", {SUBMITTER: "bob"}) == "ada"
    assert submitter_of("", {SUBMITTER: "bob"}) == "bob"
    assert submitter_of("", {})
    assert (run_of("", {RUN_OF: "r"}), run_of("", {})) == ("r", "")
    with pytest.raises(UsageError, match="1 to 64 printable characters"):
        submitter_of("x" * 65, {})
