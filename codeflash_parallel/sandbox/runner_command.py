"""The runner from the evaluator's side: where its code lies, how it is started, how its records are read.

The runner runs in the interpreter of the project under test, which has none of our packages, so its modules
are copied into the cache under a name made from their bytes and are started by path.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from codeflash_parallel.process.files import write_atomically, write_once
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.isolation_policy import IsolationPolicy
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits, Workspace

#: Version of the spec and of the records; the runner refuses any other.
PROTOCOL = 1

#: Name under which the runner's modules can be imported in the project's interpreter.
PACKAGE = "_codeflash_runner"

#: No time, number or count of a runner is larger: whole numbers in JSON know no end, floats do.
_LARGEST = 2**63 - 1

_SOURCE = Path(__file__).resolve().parent.parent / "_runner"


class ControlChannelUse(StrEnum):
    """Whether a runner is given a control channel."""

    #: Records only: it does its work and ends.
    NONE = "none"
    #: A line channel as well: it serves requests until told to quit (race arms).
    LINES = "lines"


def install_runner(cache: Path) -> Path:
    """Copy the runner's modules into the cache and return the folder that holds its package.

    Processes may do this at the same time: the folder appears complete or not at all, and one that
    has been damaged since is made good file by file.

    Args:
        cache: the cache folder; it is made if needed.

    Returns:
        ``<cache>/runner-<digest>``, inside which lies ``_codeflash_runner``.
    """
    modules = {
        path.relative_to(_SOURCE).as_posix(): path.read_bytes() for path in sorted(_SOURCE.rglob("*.py"))
    }
    digest = digest_of(b"".join(name.encode() + b"\0" + text + b"\0" for name, text in modules.items()))
    home = cache / f"runner-{digest[:16]}"
    if not home.is_dir():
        _install_new(modules, home)
    for name, text in modules.items():
        path = home / PACKAGE / name
        if not path.is_file() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
    return home


def _install_new(modules: Mapping[str, bytes], home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="runner-new-", dir=home.parent))
    try:
        # mkdtemp's 0700 would lock out a project interpreter that runs as another user.
        draft.chmod(0o755)
        (draft / PACKAGE).mkdir()
        for name, text in modules.items():
            path = draft / PACKAGE / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text)
        draft.rename(home)
    except OSError:
        # Renaming onto a folder with content fails: somebody else was first, which is as good.
        if not home.is_dir():
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_spec(workspace: Workspace, spec: Mapping[str, Any], runner_dir: Path) -> Path:
    """Write a spec into the workspace's private folder and return where it lies.

    Args:
        workspace: where the runner runs; its paths are added to the spec.
        spec: what the runner is to do: `mode` and the fields of that mode, JSON values only.
        runner_dir: what `install_runner` returned.
    """
    full = {
        "protocol": PROTOCOL,
        "root": str(workspace.seen(workspace.root)),
        "project": str(workspace.seen(workspace.project)),
        "user_root": str(workspace.user_root),
        "private": str(workspace.seen(workspace.private)),
        "mounts": _mounts(workspace),
        "runner": str(runner_dir),
        **({} if workspace.isolation == IsolationPolicy() else {"isolation": workspace.isolation.as_spec()}),
        **spec,
    }
    data = json.dumps(full, sort_keys=True).encode()
    # Named by content: equal specs share a file, different ones never meet.
    path = workspace.private / f"spec-{digest_of(data)[:16]}.json"
    write_once(path, data)
    return path


def _mounts(workspace: Workspace) -> dict[str, str]:
    """Return where its folders lie, by the path at which its processes see them."""
    folders = (workspace.root, workspace.private) if workspace.mounted else ()
    return {str(workspace.seen(folder)): str(folder) for folder in folders}


def start_command(
    workspace: Workspace,
    spec: Mapping[str, Any],
    limits: ProcessLimits,
    runner_dir: Path,
    *,
    control: ControlChannelUse = ControlChannelUse.NONE,
) -> ChildCommand:
    """Write a spec into the workspace's private folder and return the command that runs the runner on it.

    Args:
        workspace: where it runs; its paths are added to the spec.
        spec: what the runner is to do: `mode` and the fields of that mode, JSON values only.
        limits: of the child and its descendants.
        runner_dir: what `install_runner` returned.
        control: whether the runner gets a control channel.
    """
    path = write_spec(workspace, spec, runner_dir)
    descriptors = ("{records}", "{control}") if control is ControlChannelUse.LINES else ("{records}",)
    main = runner_dir / PACKAGE / "__main__.py"
    return ChildCommand(
        argv=(str(workspace.interpreter), str(main), str(path), *descriptors),
        cwd=workspace.project,
        environment=workspace.environment,
        limits=limits,
    )


def compile_command(
    interpreter: Path, environment: Mapping[str, str], limits: ProcessLimits, runner_dir: Path
) -> ChildCommand:
    """Return the command with which the project's interpreter compiles the runner once, ahead of all runs.

    Runners write no bytecode themselves, so without this every one of them compiles these modules anew,
    which is about half of the CPU time of its start. Failing does no harm.
    """
    return ChildCommand(
        argv=(str(interpreter), "-m", "compileall", "-q", str(runner_dir / PACKAGE)),
        cwd=runner_dir,
        environment=environment,
        limits=limits,
    )


def compiled_mark(interpreter: Path, runner_dir: Path) -> Path:
    """Return the file that says that an interpreter has compiled the runner."""
    return runner_dir / f"compiled-{digest_of(str(interpreter).encode())[:16]}"


def whole_number(value: object) -> int:
    """Return a time, a number or a count of a record.

    Raises:
        OverflowError, TypeError, ValueError: it is none that a runner writes.
    """
    number = int(value)  # type: ignore[call-overload]
    if abs(number) > _LARGEST:
        raise OverflowError("a number of more than 64 bits")
    return int(number)


def parse_records(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of a runner in order; what is no JSON object (a line cut by a crash) is skipped."""
    for record in _parsed(data):
        if isinstance(record, dict):
            yield record


def _parsed(data: bytes) -> Iterable[object]:
    """Parse all lines at once, which takes half the time, or one by one where that does not work."""
    with contextlib.suppress(ValueError, RecursionError):
        return tuple(json.loads(b"[" + data.rstrip().replace(b"\n", b",") + b"]"))
    return _parsed_lines(data)


def _parsed_lines(data: bytes) -> Iterator[object]:
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)
