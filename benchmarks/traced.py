"""One real run under strace: which system calls would change something of the user's.

    python benchmarks/traced.py [--fixture demonstration] [--keep FILE]

The command line runs the demonstration, race and all, in a repository with a few uncommitted changes. Every
call that creates, opens for writing, renames, links, removes, truncates, or changes rights, owners, times or
attributes is looked at, of every process; those below the repository are counted. First a command that does
write there is traced, and must be seen. Exits 1 if anything would have been changed, 77 without strace.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE / "tests"), str(HERE / "tests" / "acceptance")]

from harness import (  # noqa: E402
    LONGEST_S,
    Place,
    commit_all,
    copy_tree,
    load_fixture,
    make_place,
    picture,
)
from mounts import said_against  # noqa: E402
from traces import TRACED, Change, below, changes  # noqa: E402

#: Says that this machine cannot do it.
SKIPPED = 77
#: strace stops every process at every call that it looks at.
SLOWER = 5


def traced(command: Sequence[str], place: Place, output: Path) -> tuple[list[Change], int]:
    """Run a command, and return its calls that would change something anywhere, and its exit code."""
    strace = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={TRACED}", "-o", str(output)]
    done = subprocess.run(
        [*strace, *command],
        cwd=place.cwd,
        env=dict(place.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=SLOWER * LONGEST_S,
        check=False,
    )
    with output.open(encoding="utf-8", errors="surrogateescape") as lines:
        return changes(lines, str(place.cwd)), done.returncode


def control(place: Place, folder: Path) -> None:
    """What a trace cannot see, it cannot rule out: git's own `status` writes an index, and must be seen."""
    (place.repository / "pyproject.toml").touch()
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@localhost", "status", "--short"]
    found, _ = traced(git, place, folder / "control")
    seen = below(found, str(place.repository))
    assert seen, "the trace of a `git status` that writes its index shows no change"
    print(f"control: `git status` makes {len(seen)} such calls, e.g. {seen[0].line[:150]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fixture", default="demonstration")
    parser.add_argument("--keep", type=Path, help="where the trace is left")
    options = parser.parse_args()
    why = said_against(["strace", "-f", "-qq", "-o", "/dev/null", "true"])
    if why:
        print(f"skipped: {why}")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="traced-") as name:
        return evidence(Path(name), options.fixture, options.keep)


def evidence(folder: Path, name: str, keep: Path | None) -> int:
    fixture = load_fixture(name)
    place = make_place(folder / "user")
    copy_tree(fixture.folder / "project", place.repository)
    commit_all(place.repository)
    control(place, folder)
    (place.repository / "untracked.txt").write_text("mine\n", encoding="utf-8")
    before = picture(place.repository)
    functions = ("--function", *fixture.expected["functions"])
    command = place.command("run", *functions, "--candidates", str(fixture.candidates), "-j", "2")
    found, status = traced(command, place, folder / "trace")
    if keep:
        shutil.copyfile(folder / "trace", keep)
    mine = below(found, str(place.repository))
    counted = Counter(one.call for one in found)
    print(f"exit code {status}; {sum(counted.values())} calls that change something: {dict(counted)}")
    print(f"below {place.repository}, or of unknown place: {len(mine)}")
    for one in mine[:20]:
        print(f"  {one.path or '?'}: {one.line[:300]}")
    same = before == picture(place.repository)
    print("the repository is " + ("what it was" if same else "CHANGED"))
    return 0 if not mine and same and status in {0, 4} else 1  # a slow machine may be too noisy for a race


if __name__ == "__main__":
    sys.exit(main())
