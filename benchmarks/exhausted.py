"""Runs on a machine that lacks something: one clear line, nothing charged to a candidate, nothing touched.

    python benchmarks/exhausted.py [--minutes 20] [--file exhausted.jsonl] [--only NAME ...]

Descriptors, memory, processes, space and inodes for files of a moment and for the cache, a home that is
read-only or not there, a disk that executes nothing, a plain locale, a narrow umask, streams that are closed
or full. Each is one `check` of a right and a wrong candidate. It either comes to the right verdicts, or ends
with exit code 4 and one line; what could not be judged has a code of the machinery's. Each cell is a line of
the file; a line that is there is not made again. Exits 1 if any cell is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "tests"))

from cells import FAILURES, Cell, Row, worked_through  # noqa: E402
from harness import Finished  # noqa: E402
from mounts import mounting, said_against, why_no_mounts  # noqa: E402
from shapes import differences  # noqa: E402
from sites import Site, why_not_as  # noqa: E402
from ways_out import Try, attempt, left_behind  # noqa: E402

#: Somebody who has no process yet: limits of processes count all that a user has.
LONER = 54321
RIGHT = {"fast": "NOT_RACED", "wrong": "TESTS_FAILED"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Lack:
    """What a run lacks.

    Attributes:
        limits: options of prlimit.
        mounts: shell commands before it starts; ``{tmp}``, ``{cache}`` and ``{home}`` are its folders.
        shell: before the command, and behind it.
        environment: variables; empty: unset.
        user: who runs it.
        streams: whether the document can be read from standard output.
    """

    limits: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    shell: tuple[str, str] = ("", "")
    environment: Mapping[str, str] = ()  # type: ignore[assignment]
    user: int = 0
    streams: bool = True


def disk(name: str, options: str) -> str:
    return f"mount -t tmpfs -o mode=1777,{options} tmpfs {{{name}}}"


def shut(name: str) -> str:
    return f"mount --bind {{{name}}} {{{name}}} && mount -o remount,bind,ro {{{name}}}"


PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
LACKS: Mapping[str, Lack] = {
    **{
        f"descriptors {n}": Lack(limits=(f"--nofile={n}:{n}",))
        for n in (8, 12, 16, 20, 24, 32, 48, 64, 128, 256)
    },
    **{f"address space {n} MiB": Lack(limits=(f"--as={n << 20}",)) for n in (48, 96, 192, 384, 768, 1536)},
    **{f"data {n} MiB": Lack(limits=(f"--data={n << 20}",)) for n in (16, 32, 64, 128, 256)},
    **{f"processes {n}": Lack(limits=(f"--nproc={n}",), user=LONER) for n in (1, 2, 3, 4, 6, 8, 12, 24, 48)},
    **{f"size of a file {n} KiB": Lack(limits=(f"--fsize={n << 10}",)) for n in (0, 4, 64, 1024)},
    "tmp full": Lack(mounts=(disk("tmp", "size=4k"), "head -c 4096 /dev/zero > {tmp}/full || true")),
    "tmp without inodes": Lack(mounts=(disk("tmp", "nr_inodes=1"),)),
    "tmp read-only": Lack(mounts=(shut("tmp"),)),
    "tmp missing": Lack(environment={"TMPDIR": "/nowhere/at all"}),
    "tmp without execution": Lack(mounts=(disk("tmp", "noexec"),)),
    "cache full": Lack(mounts=(disk("cache", "size=4k"), "head -c 4096 /dev/zero > {cache}/full || true")),
    "cache without inodes": Lack(mounts=(disk("cache", "nr_inodes=1"),)),
    "cache of few inodes": Lack(mounts=(disk("cache", "nr_inodes=120"),)),
    "cache read-only": Lack(mounts=(shut("cache"),)),
    "cache without execution": Lack(mounts=(disk("cache", "noexec"),)),
    "home read-only": Lack(mounts=(shut("home"),)),
    "home missing": Lack(environment={"HOME": "/nowhere/at all"}),
    "home unset": Lack(environment={"HOME": ""}),
    "home unset, nobody's": Lack(environment={"HOME": ""}, user=LONER),
    "locale C": Lack(environment=PLAIN),
    "umask 077": Lack(shell=("umask 077;", "")),
    "umask 0": Lack(shell=("umask 0;", "")),
    "umask 777": Lack(shell=("umask 777;", ""), user=LONER),
    "stdin closed": Lack(shell=("", "<&-")),
    "stdout closed": Lack(shell=("", ">&-"), streams=False),
    "stdout full": Lack(shell=("", ">/dev/full"), streams=False),
    "stderr closed": Lack(shell=("", "2>&-")),
    "stderr full": Lack(shell=("", "2>/dev/full")),
    "all closed": Lack(shell=("", "<&- >&- 2>&-"), streams=False),
    "everything at once": Lack(
        limits=("--nofile=64:64",), mounts=(disk("cache", "size=300k"),), environment=PLAIN
    ),
}


def run_without(tried: Try, lack: Lack) -> Finished:
    """Run the check without what is lacking."""
    site, place = tried.site, tried.place
    folders = {name: str(site.folder / name) for name in ("tmp", "cache", "home")}
    mounts = [command.format(**folders) for command in lack.mounts]
    limits = ("prlimit", *lack.limits) if lack.limits else ()
    unset = [part for name, value in dict(lack.environment).items() if not value for part in ("-u", name)]
    given = [f"{name}={value}" for name, value in dict(lack.environment).items() if value]
    shell = ("sh", "-c", f'{lack.shell[0]} exec "$@" {lack.shell[1]}', "sh")
    around = (*(mounting(mounts) if mounts else ()), *place.prefix, *shell, "env", *unset, *given, *limits)
    return replace(tried, place=replace(place, prefix=around)).run()


def judged(folder: Path, name: str) -> str:
    lack = LACKS[name]
    site = Site.made(folder)
    site.write("später.txt", "ä\n".encode())
    if lack.user:
        site.user = lack.user
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, site.user, site.user)
    tried = attempt(site, name, ("check",), name)
    tried.place.cache.mkdir(exist_ok=True)
    before = site.pictures()
    finished = run_without(tried, lack)
    changed = list(differences(before, site.pictures()))
    assert not changed, f"the user's things have changed: {changed[:5]}"
    left = left_behind(tried.place, folder)
    assert not left, f"left behind: {left[:5]}; {finished.errors[-500:]}"
    return told(finished, lack)


def told(finished: Finished, lack: Lack) -> str:
    """Return how it ended, or complain."""
    assert "Traceback" not in finished.errors, f"a traceback: {finished.errors[-1500:]}"
    if not lack.streams or not finished.stdout:
        lines = [line for line in finished.errors.splitlines() if line.startswith("error: ")]
        assert finished.status in {0, 4}, f"exit {finished.status}: {finished.errors[-1500:]}"
        assert finished.status == 0 or lack.shell[1].count("2>") or len(lines) == 1, finished.errors[-1500:]
        return f"exit {finished.status}" + "".join(f": {line}" for line in lines)
    error = finished.document["error"]
    if error is None:
        return _verdicts(finished)
    assert (error["family"], finished.status) == ("environment", 4), f"{error}; {finished.errors[-800:]}"
    assert "\n" not in error["message"], error["message"]
    return f"refused: {error['code']}: {error['message'][:160]}"


def _verdicts(finished: Finished) -> str:
    codes: dict[str, Any] = {one["id"]: one["code"] for one in finished.document["candidates"]}
    for name, code in codes.items():
        assert code == RIGHT[name] or code.startswith("INFRA_"), f"{name} is charged: {codes}"
    if codes == RIGHT:
        assert finished.status == 0, f"exit {finished.status}"
        return "right"
    assert finished.status in {0, 4}, f"exit {finished.status}: {codes}"
    return f"not judged: {'/'.join(sorted(set(codes.values())))}"


def cell_of(row: Row, probes: Mapping[str, str]) -> Cell:
    lack = LACKS[row["lack"]]
    asked = {"mounts": lack.mounts, "prlimit": lack.limits, "user": lack.user}
    why = next((probes[name] for name, wanted in asked.items() if wanted and probes[name]), "")
    if why:
        return {"result": "skipped", "why": why}
    folder = Path(tempfile.mkdtemp(prefix="exhausted-"))
    folder.chmod(0o755)
    try:
        return {"result": judged(folder / "site", row["lack"])}
    except FAILURES as error:
        return {"result": "wrong", "why": str(error)[:3000]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def probe() -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="exhausted-probe-") as folder:
        mounts = why_no_mounts(Path(folder))
    return {"mounts": mounts, "prlimit": said_against(["prlimit", "true"]), "user": why_not_as(LONER)}


def report(cells: Sequence[Cell]) -> int:
    for cell in cells:
        print(f"{cell['row']['lack']:24} {cell['result']} {cell.get('why', '')[:700]}")
    counted = Counter(cell["result"].partition(":")[0] for cell in cells)
    print(json.dumps(counted))
    return 1 if counted["wrong"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--file", type=Path, default=Path("exhausted.jsonl"))
    parser.add_argument("--only", nargs="*", default=list(LACKS), help="what is lacking, by name")
    options = parser.parse_args()
    rows = [{"lack": name} for name in options.only]
    probes = probe()
    return report(worked_through(rows, lambda row: cell_of(row, probes), options.file, options.minutes))


if __name__ == "__main__":
    sys.exit(main())
