"""Which isolation level a run has, and what is said where it cannot be had."""

import sys
from pathlib import Path

import pytest

from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import (
    IsolationLevel,
    IsolationPolicy,
    IsolationProbe,
    RunnerLimits,
    missing_rights,
)
from codeflash_parallel.sandbox import level_probe
from codeflash_parallel.sandbox.level_probe import LevelProber, choose, secrets_of
from codeflash_parallel.sandbox.runner_command import install_runner

NONE, LANDLOCK, SANDBOX = IsolationLevel


class Machine(LevelProber):
    """A machine on which some levels do not work."""

    __slots__ = ()
    broken: tuple[IsolationLevel, ...] = ()

    def probe(self, level: IsolationLevel) -> IsolationProbe:
        return IsolationProbe(
            level=level, why_not="unshare: Operation not permitted" if level in self.broken else ""
        )


def machine(*missing: IsolationLevel) -> LevelProber:
    kind = type("Such", (Machine,), {"broken": missing, "__slots__": ()})
    nowhere = Path("/nowhere")
    made: LevelProber = kind(interpreter=nowhere, runner_dir=nowhere, cache=nowhere)
    return made


@pytest.mark.parametrize(
    ("missing", "level"), [((), SANDBOX), ((SANDBOX,), LANDLOCK), ((LANDLOCK, SANDBOX), NONE)]
)
def test_auto_is_the_highest_that_works(missing: tuple[IsolationLevel, ...], level: IsolationLevel) -> None:
    assert choose("auto", "", machine(*missing)) is level


def test_levels_are_ordered_by_what_they_stop() -> None:
    assert NONE.stops_less_than(LANDLOCK)
    assert LANDLOCK.stops_less_than(SANDBOX)
    assert not SANDBOX.stops_less_than(LANDLOCK)
    assert not NONE.stops_less_than(NONE)


@pytest.mark.parametrize("level", [LANDLOCK, SANDBOX])
def test_a_level_is_tried_by_a_script_that_is_there(tmp_path: Path, level: IsolationLevel) -> None:
    """A probe that cannot start would make every machine look as if it had no isolation."""
    prober = LevelProber(
        interpreter=Path(sys.executable), runner_dir=install_runner(tmp_path), cache=tmp_path
    )
    why_not = prober.probe(level).why_not
    assert not why_not or "is refused" in why_not


def test_a_refused_sandbox_names_the_kernel_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = "kernel.unprivileged_userns_clone"
    file = Path("/proc/sys", *name.split("."))
    monkeypatch.setattr(level_probe, "text_of", lambda path: "0\n" if path == file else "")
    prober = LevelProber(interpreter=tmp_path / "python", runner_dir=tmp_path, cache=tmp_path)
    assert prober.probe(SANDBOX).why_not.endswith(f"; {name} = 0")
    assert name not in prober.probe(LANDLOCK).why_not


@pytest.mark.parametrize("asked", ["landlock", "sandbox"])
def test_what_is_asked_for_is_had_or_refused(asked: str) -> None:
    assert choose(asked, "", machine()) == asked
    with pytest.raises(EnvironmentFault, match=f"--isolation {asked} cannot be met here: unshare") as caught:
        choose(asked, "", machine(IsolationLevel(asked)))
    assert caught.value.code == "NO_ISOLATION"


@pytest.mark.parametrize(
    ("asked", "missing", "words"),
    [
        ("auto", (SANDBOX,), "--require-isolation sandbox cannot be met here: unshare"),
        ("landlock", (), "--isolation landlock is less than --require-isolation sandbox"),
        ("none", (), "--isolation none is less than --require-isolation sandbox"),
    ],
)
def test_less_than_required_is_refused(asked: str, missing: tuple[IsolationLevel, ...], words: str) -> None:
    with pytest.raises(EnvironmentFault, match=words):
        choose(asked, "sandbox", machine(*missing))


def test_secrets_of_a_home_are_named_where_they_are(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".netrc").touch()
    assert set(secrets_of({"HOME": str(tmp_path)})) == {str(tmp_path / ".ssh"), str(tmp_path / ".netrc")}
    assert secrets_of({}) == secrets_of({"HOME": "relative"}) == ()


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("OSError: [Errno 101] Network is unreachable", ("--allow-network",)),
        ("OSError: [Errno 30] Read-only file system: '/data/x'", ("--allow-write PATH",)),
        ("KeyError: 'TOKEN'", ("--pass-env NAME",)),
        ("assert 1 == 2", ()),
    ],
)
def test_failures_name_the_right_that_they_miss(words: str, flags: tuple[str, ...]) -> None:
    assert missing_rights(words) == flags


def test_a_policy_is_plain_json() -> None:
    policy = IsolationPolicy(
        level=SANDBOX, writable=("/data",), limits=RunnerLimits(disk_bytes=1), cache="/cache"
    )
    assert policy.as_spec()["level"] == "sandbox"
    assert policy.as_spec()["limits"]["disk_bytes"] == 1
