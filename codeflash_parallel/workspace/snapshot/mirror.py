"""The mirror: a private, self-contained bare repository that holds every snapshot.

It borrows no object from the user's repository, so that a `gc --prune` there takes nothing away, and every
byte in it is what lies on the user's disk: no filter, no line-ending conversion.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from codeflash_parallel.process.files import FileLock
from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.cache_layout import CacheHome, cache_faults, locked, remove_tree
from codeflash_parallel.workspace.git.git_client import (
    GITLINK,
    Git,
    GitFailed,
    Repository,
    TreeEntry,
    list_tree,
    mirror_git,
    read_blobs,
    read_file,
)
from codeflash_parallel.workspace.snapshot.snapshot import (
    MANY_OBJECTS,
    Snapshot,
    SnapshotBuilder,
    SnapshotRequest,
)
from codeflash_parallel.workspace.tree_guard import holds, names_in

__all__ = ["Mirror", "Snapshot", "open_mirror"]

#: The whole configuration. No fsync: after a crash of the machine the objects are looked through instead.
_CONFIG = b"""[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tlogAllRefUpdates = false
\tfsync = none
[gc]
\tauto = 0
[checkout]
\tworkers = 0
"""
#: Of a mirror that must outlive a power cut: one flush of the disk for each command.
_DURABLE = ("-c", "core.fsync=committed", "-c", "core.fsyncMethod=batch")
#: Bytes are bytes: this file outranks every .gitattributes of a project.
ATTRIBUTES = b"* -text -eol -filter -ident -working-tree-encoding\n"
#: What must be true of the mirror's own files at any time.
_SEAL = {"HEAD": b"ref: refs/heads/none\n", "config": _CONFIG, "info/attributes": ATTRIBUTES}
#: Nothing of ours makes these; whoever did wanted something of our next git command.
_FOREIGN = (
    *("hooks", "packed-refs", "config.worktree", "shallow", "commondir", "modules", "logs"),
    *("objects/info/alternates", "objects/info/http-alternates"),
    *("info/grafts", "info/exclude", "info/sparse-checkout"),
)
_FOLDERS = ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "worktrees")
#: A run reads the files of its targets and of its candidates' edits, again and again.
_TEXTS_KEPT = 256


class Mirror:
    """The mirror of one repository; made by `open_mirror`. Usable from several tasks at once."""

    def __init__(
        self, repository: Repository, home: CacheHome, use: FileLock, *, is_durable: bool = False
    ) -> None:
        self.repository = repository
        self._is_durable = is_durable
        self.home = home
        self._use = use
        self._entries: dict[str, Mapping[str, TreeEntry]] = {}
        self._indexes: dict[str, bytes] = {}
        self._texts: dict[tuple[str, str], bytes | None] = {}
        self._sources: dict[str, SnapshotRequest | Path] = {}

    @property
    def git(self) -> Git:
        """Run git on the mirror."""
        git = mirror_git(self.home.mirror)
        return git.given(*_DURABLE) if self._is_durable else git

    def close(self) -> None:
        """Say that it is not used any more; again is harmless."""
        self._use.release()

    async def snapshot(self, request: SnapshotRequest) -> Snapshot:
        """Freeze the user's tree.

        Raises:
            UsageError: a base or folder that does not exist.
            EnvironmentFault: a file that cannot be read; a cache that is full or cannot be written.
        """
        from anyio import to_thread  # `queue submit` needs no event loop

        return await to_thread.run_sync(self._snapshot, request)

    def _snapshot(self, request: SnapshotRequest) -> Snapshot:
        with cache_faults(self.home.path), locked(self.home.mirror_lock) as lock:
            try:
                taken = self._take(request, lock)
            except GitFailed:  # perhaps an object was lost: the second attempt tells
                self._drop_damaged_objects()
                taken = self._take(request, lock)
        self._sources[taken.commit] = request
        return taken

    def _take(self, request: SnapshotRequest, lock: FileLock) -> Snapshot:
        mend(self.home.mirror)
        with self.home.scratch() as scratch:
            return SnapshotBuilder(
                mirror=self.git.holding(lock.fd),
                index=self.home.mirror / "snapshot.index",
                repository=self.repository,
                request=request,
                scratch=scratch,
            ).take()

    def heal(self, snapshot: Snapshot) -> None:
        """Put back what the mirror lost of a snapshot, from the user's tree or another mirror. Blocking.

        Raises:
            EnvironmentFault: `MIRROR_DAMAGED`, the user's tree has changed since; `SNAPSHOT_GONE`.
        """
        source = self._sources[snapshot.commit]
        with cache_faults(self.home.path), locked(self.home.mirror_lock) as lock:
            self._drop_damaged_objects()
            if isinstance(source, Path):
                self._copy(snapshot, source)
                return
            again = self._take(source, lock)
        if again.commit != snapshot.commit:
            raise EnvironmentFault(
                "MIRROR_DAMAGED",
                f"The mirror in {self.home.path} lost files, and the tree has changed since.",
                "Run again.",
            )

    async def holds(self, snapshot: Snapshot) -> bool:
        """Say whether everything of a snapshot that was taken earlier is still there."""
        from anyio import to_thread

        return await to_thread.run_sync(self._holds_objects, snapshot)

    def _holds_objects(self, snapshot: Snapshot) -> bool:
        try:
            self.git.run("cat-file", "-e", f"{snapshot.commit}^{{tree}}")
            blobs = {entry.blob for entry in self.entries(snapshot).values()}
            said = self.git.run("cat-file", "--batch-check", stdin="\n".join(sorted(blobs)).encode() + b"\n")
        except GitFailed:
            return False
        return b" missing" not in said

    def adopt(self, snapshot: Snapshot, request: SnapshotRequest) -> None:
        """Let a snapshot that was taken earlier be healed by what it was taken of."""
        self._sources[snapshot.commit] = request

    async def fetch(self, snapshot: Snapshot, source: Path) -> None:
        """Copy a snapshot from another mirror, as far as it is not here already.

        Raises:
            EnvironmentFault: `SNAPSHOT_GONE`, the other mirror has lost it; a cache that cannot be written.
        """
        from anyio import to_thread

        self._sources[snapshot.commit] = source
        if not await self.holds(snapshot):
            await to_thread.run_sync(self._fetch, snapshot, source)

    def _fetch(self, snapshot: Snapshot, source: Path) -> None:
        with cache_faults(self.home.path), locked(self.home.mirror_lock):
            mend(self.home.mirror)
            self._copy(snapshot, source)

    def _copy(self, snapshot: Snapshot, source: Path) -> None:
        """Copy the objects that are missing; the caller holds the lock."""
        theirs, ours = mirror_git(source), self.git
        try:
            objects = theirs.run("rev-list", "--objects", "--no-object-names", snapshot.commit)
            found = ours.run("cat-file", "--batch-check", stdin=objects).splitlines(keepends=True)
            missing = [line.partition(b" ")[0] + b"\n" for line in found if line.endswith(b" missing\n")]
            pack = theirs.run("pack-objects", "--stdout", "-q", "--window=0", stdin=b"".join(missing))
        except (GitFailed, OSError) as error:
            raise EnvironmentFault(
                "SNAPSHOT_GONE",
                f"The snapshot {snapshot.commit[:12]} is gone from {source}.",
                "Submit it again.",
            ) from error
        if len(missing) > MANY_OBJECTS:
            ours.run("index-pack", "--stdin", stdin=pack)
        else:
            ours.run("unpack-objects", "-q", stdin=pack)

    def _drop_damaged_objects(self) -> None:
        """Remove objects that do not hold what their names say; they are written again when needed."""
        (self.home.mirror / "snapshot.index").unlink(missing_ok=True)
        for path in (self.home.mirror / "objects").glob("??/*"):
            if not _is_sound(path):
                remove_tree(path)
        for pack in (self.home.mirror / "objects" / "pack").glob("*.pack"):
            try:
                self.git.run("verify-pack", str(pack))
            except GitFailed:
                for part in pack.parent.glob(f"{pack.stem}.*"):
                    remove_tree(part)

    def read(self, snapshot: Snapshot, path: str) -> bytes | None:
        """Return the bytes of a regular file, `None` when the snapshot has none of that path."""
        key = (snapshot.tree, path)
        if key not in self._texts:
            if len(self._texts) >= _TEXTS_KEPT:
                self._texts.clear()
            self._texts[key] = self._read(snapshot, path)
        return self._texts[key]

    def _read(self, snapshot: Snapshot, path: str) -> bytes | None:
        try:
            return read_file(self.home.mirror, snapshot.commit, path)
        except ValueError:  # what GitPython cannot read, git can
            entry = self.entries(snapshot).get(path)
            regular = entry is not None and entry.mode.startswith("100")
            return read_blobs(self.git, [entry.blob])[entry.blob] if entry and regular else None

    def paths(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the paths of all files of a snapshot, sorted."""
        return tuple(self.entries(snapshot))

    def entries(self, snapshot: Snapshot) -> Mapping[str, TreeEntry]:
        """Return mode and blob of every file of a snapshot, by path."""
        known = self._entries.get(snapshot.tree)
        if known is None:
            found = sorted(list_tree(self.git, snapshot.tree).items())
            known = {path: entry for path, entry in found if entry.mode != GITLINK}
            self._entries[snapshot.tree] = known
        return known

    def index(self, snapshot: Snapshot) -> bytes:
        """Return git's index file of a snapshot; patches can be applied to a copy of it."""
        known = self._indexes.get(snapshot.tree)
        if known is None:
            with self.home.scratch() as scratch:
                self.git.having(GIT_INDEX_FILE=scratch / "index").run("read-tree", snapshot.tree)
                known = self._indexes[snapshot.tree] = (scratch / "index").read_bytes()
        return known


@asynccontextmanager
async def open_mirror(cache: Path, repository: Repository) -> AsyncIterator[Mirror]:
    """Open the mirror of a repository, making or mending it where needed.

    Raises:
        EnvironmentFault: the cache is full or cannot be written.
    """
    from anyio import to_thread

    mirror = await to_thread.run_sync(_open, cache, repository)
    try:
        yield mirror
    finally:
        mirror.close()


def take_durable_snapshot(folder: Path, repository: Repository, request: SnapshotRequest) -> Snapshot:
    """Take a snapshot into the repository's mirror in a folder, flushed to the disk. Blocking.

    Raises:
        UsageError, EnvironmentFault: as `Mirror.snapshot`.
    """
    mirror = _open(folder, repository, is_durable=True)
    try:
        return mirror._snapshot(request)  # noqa: SLF001 - same module, same concern
    finally:
        mirror.close()


def _open(cache: Path, repository: Repository, *, is_durable: bool = False) -> Mirror:
    home = CacheHome(path=cache.absolute() / repository.key)
    with cache_faults(cache):
        home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        use = locked(home.use_lock, fcntl.LOCK_SH)
        try:
            mirror = Mirror(repository, home, use, is_durable=is_durable)
            with locked(home.mirror_lock):
                mend(home.mirror)
                _look_through_after_reboot(mirror)
        except BaseException:
            use.release()
            raise
    return mirror


def _look_through_after_reboot(mirror: Mirror) -> None:
    """Objects are not synced to disk: the first opening after a start of the machine looks at them."""
    boot, mark = boot_id().encode(), mirror.home.mirror / "boot"
    if mark.is_file() and mark.read_bytes() == boot:
        return
    mirror._drop_damaged_objects()  # noqa: SLF001 - same module, same concern
    mark.write_bytes(boot)


def mend(git_dir: Path) -> tuple[str, ...]:
    """Make the mirror's own files what they must be, and name those that were not."""
    root = os.fspath(git_dir)
    wrong = [name for name, data in _SEAL.items() if not holds(git_dir / name, data)]
    foreign = [name for name in _FOREIGN if os.path.lexists(f"{root}/{name}")]
    kinds = names_in(git_dir / "refs")
    foreign += [f"refs/{kind}" for kind in kinds if kind not in {"heads", "tags"}]
    foreign += [f"refs/{kind}/{name}" for kind in kinds for name in names_in(git_dir / "refs" / kind)]
    for folder in _FOLDERS:
        if not os.path.isdir(f"{root}/{folder}"):  # noqa: PTH112 - asked after every check
            (git_dir / folder).mkdir(parents=True, exist_ok=True)
    for name in (*wrong, *foreign):
        remove_tree(git_dir / name)
    for name in wrong:
        (git_dir / name).write_bytes(_SEAL[name])
    return tuple(wrong + foreign)


def _is_sound(path: Path) -> bool:
    """Say whether a loose object is whole."""
    try:
        content = zlib.decompress(path.read_bytes())
    except (zlib.error, OSError):
        return False
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return digest == path.parent.name + path.name
