"""Which isolation level a run has, and what is said where it cannot be had."""

import sys
from pathlib import Path

import pytest

from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import (
    GuestLimits,
    IsolationLevel,
    IsolationPolicy,
    IsolationProbe,
    missing_rights,
)
from codeflash_parallel.sandbox import level_probe
from codeflash_parallel.sandbox.bubblewrap import wrapper
from codeflash_parallel.sandbox.level_probe import LevelProber, choose, secrets_of
from codeflash_parallel.sandbox.runner_command import install_guest

L0, L1, L2, L3 = IsolationLevel


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
    made: LevelProber = kind(interpreter=nowhere, guest_dir=nowhere, cache=nowhere)
    return made


@pytest.mark.parametrize(("missing", "level"), [((), L3), ((L3,), L2), ((L2, L3), L1), ((L1, L2, L3), L0)])
def test_auto_is_the_highest_that_works(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[IsolationLevel, ...], level: IsolationLevel
) -> None:
    monkeypatch.setattr(level_probe, "AUTO_UP_TO", L3)
    assert choose("auto", "", machine(*missing)).level is level


def test_auto_is_bounded_but_never_below_what_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_probe, "AUTO_UP_TO", L1)
    assert choose("auto", "", machine()).level is L1
    assert choose("auto", "L2", machine()).level is L2


@pytest.mark.parametrize("asked", ["L1", "L2", "L3"])
def test_what_is_asked_for_is_had_or_refused(asked: str) -> None:
    assert choose(asked, "", machine()).level == asked
    with pytest.raises(EnvironmentFault, match=f"--isolation {asked} cannot be met here: unshare") as caught:
        choose(asked, "", machine(IsolationLevel(asked)))
    assert caught.value.code == "NO_ISOLATION"


@pytest.mark.parametrize(
    ("asked", "missing", "words"),
    [
        ("auto", (L2, L3), "--require-isolation L2 cannot be met here: unshare"),
        ("L1", (), "--isolation L1 is less than --require-isolation L2"),
        ("L0", (), "--isolation L0 is less than --require-isolation L2"),
    ],
)
def test_less_than_required_is_refused(asked: str, missing: tuple[IsolationLevel, ...], words: str) -> None:
    with pytest.raises(EnvironmentFault, match=words):
        choose(asked, "L2", machine(*missing))


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
    policy = IsolationPolicy(level=L2, writable=("/data",), limits=GuestLimits(disk_bytes=1), cache="/cache")
    assert policy.as_spec()["level"] == "L2"
    assert policy.as_spec()["limits"]["disk_bytes"] == 1


def test_bubblewrap_takes_the_network_unless_it_is_allowed() -> None:
    policy = IsolationPolicy(level=L3, bwrap="/usr/bin/bwrap", cache="/cache", writable=("/data",))
    words = wrapper(policy, cwd=Path("/cache/slot"))
    assert words[0] == "/usr/bin/bwrap"
    assert "--unshare-net" in words
    assert "--unshare-pid" not in words  # a template's forks are to become the launcher's children
    assert words[words.index("/data") - 1] == "--bind-try"
    allowed = IsolationPolicy(level=L3, bwrap="/usr/bin/bwrap", network=True)
    assert "--unshare-net" not in wrapper(allowed, cwd=Path("/"))


def test_the_script_that_tries_a_level_is_found(tmp_path: Path) -> None:
    guest_dir = install_guest(tmp_path)
    prober = LevelProber(interpreter=Path(sys.executable), guest_dir=guest_dir, cache=tmp_path)
    assert "can't open file" not in prober.probe(L1).why_not
