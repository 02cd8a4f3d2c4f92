"""Find out, by running each once, which isolation levels work here, and choose one.

What was found is kept in the cache for as long as the machine runs, by interpreter and version of the guest.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from codeflash_parallel.process.atomic_file import write_atomically
from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.candidate.candidate_model import digest_of
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy, IsolationProbe
from codeflash_parallel.sandbox.bubblewrap import find_bwrap, wrapper
from codeflash_parallel.sandbox.runner_command import PACKAGE

#: A healthy machine needs a fraction of a second for each.
_PROBE_S = 30.0
#: The highest level that `auto` takes: whoever wants more names it.
AUTO_UP_TO = IsolationLevel.L2
#: What is the user's alone, below his home: keys, tokens, passwords.
_SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".pypirc",
    ".npmrc",
    ".git-credentials",
    ".config/gh",
    ".config/gcloud",
    ".config/git",
    ".local/share/keyrings",
    ".password-store",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChosenLevel:
    """The level of a run.

    Attributes:
        level: in force.
        bwrap: absolute path of bubblewrap; empty below L3.
    """

    level: IsolationLevel
    bwrap: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelProber:
    """Tells what levels do here, from the cache where that is known. Blocks for a moment.

    Attributes:
        interpreter: the project's.
        guest_dir: what `install_guest` returned.
        cache: the cache folder, which must be there.
    """

    interpreter: Path
    guest_dir: Path
    cache: Path

    def probe(self, level: IsolationLevel) -> IsolationProbe:
        """Return what a level does here."""
        if level is IsolationLevel.L0:
            return IsolationProbe(level=level)
        bwrap = find_bwrap() if level is IsolationLevel.L3 else ""
        named = (level, str(self.interpreter), self.guest_dir.name, bwrap, boot_id(), str(os.geteuid()))
        if named not in _KNOWN:
            _KNOWN[named] = self._kept(level, bwrap, digest_of(json.dumps(named).encode())[:16])
        return _KNOWN[named]

    def _kept(self, level: IsolationLevel, bwrap: str, name: str) -> IsolationProbe:
        kept = self.cache / f"isolation-{name}.json"
        with suppress(OSError, ValueError, TypeError, KeyError):
            return _read(json.loads(kept.read_bytes()))
        found = _probe(level, self, bwrap)
        with suppress(OSError):
            write_atomically(kept, json.dumps(asdict(found)).encode())
        return found

    def every(self) -> tuple[IsolationProbe, ...]:
        """Return what each level does here, the lowest first."""
        return tuple(self.probe(level) for level in IsolationLevel)


#: What this process has found out.
_KNOWN: dict[tuple[str, ...], IsolationProbe] = {}


def choose(asked: str, required: str, prober: LevelProber) -> ChosenLevel:
    """Return the level that was asked for.

    Args:
        asked: the name of a level, or `auto`: the highest that works, up to `AUTO_UP_TO` or to what is
            required, whichever is higher.
        required: the name of the lowest level that will do; empty: any.
        prober: of this machine.

    Raises:
        EnvironmentFault: `NO_ISOLATION`, what was asked for or required does not work here.
    """
    up_to = max(AUTO_UP_TO, IsolationLevel(required or AUTO_UP_TO))
    level = _highest(prober, up_to) if asked == "auto" else IsolationLevel(asked)
    for wanted, flag in ((level, f"--isolation {asked}"), (required, f"--require-isolation {required}")):
        why_not = prober.probe(IsolationLevel(wanted)).why_not if wanted else ""
        if why_not:
            raise _unavailable(f"{flag} cannot be met here: {why_not}", prober)
    if required and level < required:
        raise _unavailable(f"--isolation {level} is less than --require-isolation {required}", prober)
    return ChosenLevel(level=level, bwrap=find_bwrap() if level is IsolationLevel.L3 else "")


def _highest(prober: LevelProber, up_to: IsolationLevel = IsolationLevel.L3) -> IsolationLevel:
    levels = [level for level in IsolationLevel if level <= up_to]
    return next(level for level in reversed(levels) if not prober.probe(level).why_not)


def _unavailable(why: str, prober: LevelProber) -> EnvironmentFault:
    hint = f"{_highest(prober)} works; `codeflash-parallel doctor` says why the others do not."
    return EnvironmentFault("NO_ISOLATION", f"{why}.", hint)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the places of the user's home that hold his secrets, those that there are."""
    home = environment.get("HOME", "")
    places = [Path(home, name) for name in _SECRETS] if home.startswith("/") else []
    return tuple(os.path.realpath(place) for place in places if place.exists())


# ---- probing


def _read(found: Mapping[str, str]) -> IsolationProbe:
    return IsolationProbe(level=IsolationLevel(found["level"]), why_not=found["why_not"], note=found["note"])


def _probe(level: IsolationLevel, prober: LevelProber, bwrap: str) -> IsolationProbe:
    if level is IsolationLevel.L3 and not bwrap:
        return IsolationProbe(
            level=level, why_not="there is no bwrap: install bubblewrap, or the extra [sandbox]"
        )
    try:
        with tempfile.TemporaryDirectory(
            prefix="isolation-", dir=prober.cache, ignore_cleanup_errors=True
        ) as folder:
            argv = _tried(Path(folder), level, prober, bwrap)
            done = subprocess.run(
                argv, cwd="/", capture_output=True, text=True, check=False, timeout=_PROBE_S, env={}
            )
            # What a confined process writes there at L2 is written somewhere else.
            leaked = (Path(folder) / "outside").stat().st_size > 0
    except (OSError, subprocess.TimeoutExpired) as error:
        return IsolationProbe(level=level, why_not=f"it cannot be tried: {error}")
    return (
        IsolationProbe(level=level, why_not="a file outside could be written")
        if leaked
        else _told(level, done)
    )


def _told(level: IsolationLevel, done: subprocess.CompletedProcess[str]) -> IsolationProbe:
    with suppress(ValueError, KeyError, TypeError):
        return _read({"level": level, **json.loads(done.stdout)})
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return IsolationProbe(level=level, why_not=said[-1] if said else f"it ends with status {done.returncode}")


def _tried(folder: Path, level: IsolationLevel, prober: LevelProber, bwrap: str) -> tuple[str, ...]:
    """Prepare a slot, a checkout and a cache of a moment, and return the command that is confined there."""
    cache, user = folder / "cache", folder / "user"
    tree, private = cache / "tree", cache / "private"
    for place in (tree, private, user):
        place.mkdir(parents=True)
    secret, outside = user / "secret", folder / "outside"
    secret.write_text("", encoding="utf-8")
    outside.write_text("", encoding="utf-8")
    policy = IsolationPolicy(
        level=level, hidden=(str(user.resolve()),), cache=str(cache.resolve()), bwrap=bwrap
    )
    path = private / "spec.json"
    spec = {
        "mode": "probe",
        "root": str(tree),
        "private": str(private),
        "user_root": str(user),
        "guest": str(prober.guest_dir),
        "path": str(path),
        "secret": str(secret),
        "outside": str(outside),
        "isolation": policy.as_spec(),
    }
    path.write_text(json.dumps(spec), encoding="utf-8")
    argv = (str(prober.interpreter), "-I", "-B", str(prober.guest_dir / PACKAGE / "trying.py"), str(path))
    return (*wrapper(policy, cwd=tree), *argv) if level is IsolationLevel.L3 else argv
