"""Find out, by running each once, which isolation levels work here, and choose one.

What was found is kept in the cache for as long as the machine runs, by interpreter and version of the runner.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from codeflash_parallel.process.files import write_atomically
from codeflash_parallel.process.machine import boot_id, text_of
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy, IsolationProbe
from codeflash_parallel.sandbox.runner_command import PACKAGE

#: A healthy machine needs a fraction of a second for each.
_PROBE_S = 30.0
#: Kernel settings that keep a user from making namespaces, and the value with which they do.
_NAMESPACE_SETTINGS = {
    "kernel.apparmor_restrict_unprivileged_userns": "1",
    "kernel.unprivileged_userns_clone": "0",
    "user.max_user_namespaces": "0",
}
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
class LevelProber:
    """Tells what levels do here, from the cache where that is known. Blocks for a moment.

    Attributes:
        interpreter: the project's.
        runner_dir: what `install_runner` returned.
        cache: the cache folder, which must be there.
    """

    interpreter: Path
    runner_dir: Path
    cache: Path

    def probe(self, level: IsolationLevel) -> IsolationProbe:
        """Return what a level does here."""
        if level is IsolationLevel.NONE:
            return IsolationProbe(level=level)
        where = (str(self.interpreter), self.runner_dir.name, boot_id(), str(os.geteuid()))
        named = (level, *where, *_restrictions())
        if named not in _KNOWN:
            _KNOWN[named] = self._kept(level, digest_of(json.dumps(named).encode())[:16])
        return _KNOWN[named]

    def _kept(self, level: IsolationLevel, name: str) -> IsolationProbe:
        kept = self.cache / f"isolation-{name}.json"
        with suppress(OSError, ValueError, TypeError, KeyError):
            known: IsolationProbe = from_plain(IsolationProbe, json.loads(kept.read_bytes()))
            return known
        found = _explained(_probe(level, self))
        with suppress(OSError):
            write_atomically(kept, json.dumps(to_plain(found)).encode())
        return found

    def every(self) -> tuple[IsolationProbe, ...]:
        """Return what each level does here, the lowest first."""
        return tuple(self.probe(level) for level in IsolationLevel)


#: What this process has found out.
_KNOWN: dict[tuple[str, ...], IsolationProbe] = {}


def choose(asked: str, required: str, prober: LevelProber) -> IsolationLevel:
    """Return the level that was asked for.

    Args:
        asked: the name of a level, or `auto`: the highest that works.
        required: the name of the lowest level that will do; empty: any.
        prober: of this machine.

    Raises:
        EnvironmentFault: `NO_ISOLATION`, what was asked for or required does not work here.
    """
    level = _highest(prober) if asked == "auto" else IsolationLevel(asked)
    for wanted, flag in ((level, f"--isolation {asked}"), (required, f"--require-isolation {required}")):
        why_not = prober.probe(IsolationLevel(wanted)).why_not if wanted else ""
        if why_not:
            raise _unavailable(f"{flag} cannot be met here: {why_not}", prober)
    if required and level.stops_less_than(IsolationLevel(required)):
        raise _unavailable(f"--isolation {level} is less than --require-isolation {required}", prober)
    return level


def _highest(prober: LevelProber) -> IsolationLevel:
    return next(level for level in reversed(IsolationLevel) if not prober.probe(level).why_not)


def _unavailable(why: str, prober: LevelProber) -> EnvironmentFault:
    hint = f"{_highest(prober)} works; `codeflash-parallel doctor` says why the others do not."
    return EnvironmentFault("NO_ISOLATION", f"{why}.", hint)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the places of the user's home that hold his secrets, those that there are."""
    home = environment.get("HOME", "")
    places = [Path(home, name) for name in _SECRETS] if home.startswith("/") else []
    return tuple(os.path.realpath(place) for place in places if place.exists())


# ---- probing


def _restrictions() -> tuple[str, ...]:
    """Return the kernel settings that restrict namespaces here, as `sysctl` writes them."""
    return tuple(
        f"{name} = {value}"
        for name, value in _NAMESPACE_SETTINGS.items()
        if text_of(Path("/proc/sys", *name.split("."))).strip() == value
    )


def _explained(probe: IsolationProbe) -> IsolationProbe:
    """Return a probe that names the kernel settings which refuse the sandbox."""
    restrictions = _restrictions() if probe.level is IsolationLevel.SANDBOX and probe.why_not else ()
    return replace(probe, why_not="; ".join((probe.why_not, *restrictions)))


def _probe(level: IsolationLevel, prober: LevelProber) -> IsolationProbe:
    try:
        with tempfile.TemporaryDirectory(
            prefix="isolation-", dir=prober.cache, ignore_cleanup_errors=True
        ) as folder:
            argv = _tried(Path(folder), level, prober)
            done = subprocess.run(
                argv, cwd="/", capture_output=True, text=True, check=False, timeout=_PROBE_S, env={}
            )
            # What a confined process writes there at `sandbox` is written somewhere else.
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
        probe: IsolationProbe = from_plain(IsolationProbe, {"level": level, **json.loads(done.stdout)})
        return probe
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return IsolationProbe(level=level, why_not=said[-1] if said else f"it ends with status {done.returncode}")


def _tried(folder: Path, level: IsolationLevel, prober: LevelProber) -> tuple[str, ...]:
    """Prepare a slot, a checkout and a cache of a moment, and return the command that is confined there."""
    cache, user = folder / "cache", folder / "user"
    tree, private = cache / "tree", cache / "private"
    for place in (tree, private, user):
        place.mkdir(parents=True)
    secret, outside = user / "secret", folder / "outside"
    secret.write_text("", encoding="utf-8")
    outside.write_text("", encoding="utf-8")
    policy = IsolationPolicy(level=level, hidden=(str(user.resolve()),), cache=str(cache.resolve()))
    path = private / "spec.json"
    spec = {
        "mode": "probe",
        "root": str(tree),
        "project": str(tree),
        "private": str(private),
        "user_root": str(user),
        "runner": str(prober.runner_dir),
        "path": str(path),
        "secret": str(secret),
        "outside": str(outside),
        "isolation": policy.as_spec(),
    }
    path.write_text(json.dumps(spec), encoding="utf-8")
    script = prober.runner_dir / PACKAGE / "sandbox" / "isolation_probe.py"
    return (str(prober.interpreter), "-I", "-B", str(script), str(path))
