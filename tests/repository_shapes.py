"""Shapes that a user's repository can have: what lies in its tree, of which kind it is, what surrounds it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from harness import GIT, git
from mounts import read_only
from pairwise import Row
from sites import NOBODY, STRANGER, TABLE, WHILE_BUILDING, Site

#: Files of the big one.
MANY = int(os.environ.get("CODEFLASH_PARALLEL_FILES", "20000"))
#: Every hook that git knows.
HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "commit-msg"),
    *("prepare-commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push"),
    *("pre-receive", "update", "proc-receive", "post-receive", "post-update", "reference-transaction"),
    *("push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit", "post-index-change"),
)
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 14\n" % (b"0" * 64)


def _clean(site: Site) -> None:
    pass


def _staged(site: Site) -> None:
    site.write("staged.txt", b"new\n")
    site.write("notes.txt", b"third\n")
    site.git("add", "staged.txt", "notes.txt")
    site.git("mv", "tool.sh", "renamed.sh")
    site.git("rm", "-q", "--cached", "data/expected.bin")  # on disk it stays, and the tests need it
    site.write("notes.txt", b"fourth, not staged\n")


def _unstaged(site: Site) -> None:
    site.write("notes.txt", b"changed\n")
    (site.repository / "docs" / "old.txt").unlink(missing_ok=True)
    site.write("data/table.txt", b"other\n")
    site.write("data/expected.bin", b"other\n")


def _untracked(site: Site) -> None:
    site.write("tests/test_new.py", b"from newly import ONE\n\ndef test_one():\n    assert ONE == 1\n")
    site.write("tests/newly.py", b"ONE = 1\n")
    site.write("empty folder/deep/file.txt", b"")
    (site.repository / "nothing in it").mkdir()


def _ignored(site: Site) -> None:
    site.write("run.log", b"a log\n")
    site.write("secret/key", b"a key\n").chmod(0o600)
    os.mkfifo(site.repository / "secret" / "pipe")


def _intent_to_add(site: Site) -> None:
    site.write("intended.txt", b"later\n")
    site.write("tests/test_intended.py", b"def test_intended():\n    assert True\n")
    site.git("add", "-N", "intended.txt", "tests/test_intended.py")


def _conflict(site: Site) -> None:
    """Three stages in the index, as a merge leaves them, and the marks on disk."""
    blobs = [_blob(site, text) for text in (b"base\n", b"ours\n", b"theirs\n")]
    lines = [f"0 {'0' * 40}\tnotes.txt"]
    lines += [f"100644 {blob} {stage}\tnotes.txt" for stage, blob in enumerate(blobs, start=1)]
    _feed(site, "\n".join(lines).encode() + b"\n", "update-index", "--index-info")
    site.write("notes.txt", b"<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> other\n")
    git_dir = Path(site.git("rev-parse", "--absolute-git-dir").strip())
    (git_dir / "MERGE_HEAD").write_text(site.git("rev-parse", "HEAD"), encoding="ascii")


def _modes(site: Site) -> None:
    (site.repository / "tool.sh").chmod(0o644)
    (site.repository / "shop" / "sums.py").chmod(0o755)
    site.write("read-only.txt", b"").chmod(0o444)


def _windows(site: Site) -> None:
    site.write(".gitattributes", b"*.txt text eol=crlf\n")
    site.git("config", "core.autocrlf", "true")
    site.git("config", "core.safecrlf", "true")
    for name in ("data/table.txt", "data/expected.bin", "notes.txt"):
        site.write(name, TABLE.replace("\n", "\r\n").encode())
    source = site.repository / "shop" / "sums.py"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))


def _links(site: Site) -> None:
    (site.repository / "to a file").symlink_to("notes.txt")
    (site.repository / "to a folder").symlink_to("data", target_is_directory=True)
    (site.repository / "to nothing").symlink_to("nothing")
    (site.repository / "out of the tree").symlink_to(site.marks)
    (site.repository / "round").symlink_to("round")
    site.git("add", "to a file", "to nothing")


def _names(site: Site) -> None:
    names = (
        b"latin-\xe9.txt",
        b"with\nnewline",
        b"with\ttab",
        b" spaces ",
        b"-dash",
        b'"quoted"',
        b"\xff\xfe",
    )
    for number, name in enumerate(names):
        (site.repository / os.fsdecode(name)).write_bytes(b"%d" % number)
    _feed(site, b"\0".join(names[::2]) + b"\0", "update-index", "--add", "-z", "--stdin")


def _stale(site: Site) -> None:
    """Every file has another time than the index knows: git's own `status` would write a new index."""
    for path in site.git("ls-files", "-z").split("\0")[:-1]:
        if (site.repository / path).is_file():
            os.utime(site.repository / path, (1, 1))


def _plain(site: Site) -> None:
    pass


def _submodules(site: Site) -> None:
    library = site.folder / "library"
    for name, text in {"helper.py": "TWO = 2\n", "data.txt": "inside\n"}.items():
        (library / name).parent.mkdir(exist_ok=True)
        (library / name).write_text(text, encoding="utf-8")
    for arguments in (("init", "-q"), ("add", "--all"), ("commit", "-q", "-m", "library")):
        git(library, *arguments)
    site.git("submodule", "--quiet", "add", str(library), "lib")
    site.git("submodule", "--quiet", "add", str(library), "never filled")
    site.write(
        "tests/test_lib.py",
        b"import sys\nsys.path.insert(0, 'lib')\nfrom helper import TWO\n\ndef test_two():\n    assert TWO == 2\n",
    )
    site.commit("submodules")
    site.git("submodule", "--quiet", "deinit", "-f", "never filled")
    site.write("lib/data.txt", b"changed inside\n")


def _lfs(site: Site) -> None:
    """Pointers, as a clone without git-lfs has them, and one file that was fetched."""
    site.write(".gitattributes", b"*.bin filter=lfs diff=lfs merge=lfs -text\n")
    site.write("data/big.bin", LFS_POINTER)
    site.commit("pointers")
    for key, command in {"clean": "git-lfs clean -- %f", "smudge": "git-lfs smudge -- %f"}.items():
        site.git("config", f"filter.lfs.{key}", command)
    site.git("config", "filter.lfs.required", "true")


def _sparse(site: Site) -> None:
    site.git("sparse-checkout", "set", "--cone", "shop", "tests", "data")
    assert not (site.repository / "docs").exists()


def _cloned(site: Site, *options: str) -> None:
    target = site.folder / "clone"
    git(site.folder, "clone", "-q", *options, site.repository.as_uri(), str(target))
    site.repository = target


def _shallow(site: Site) -> None:
    _cloned(site, "--depth", "1")


def _bare(site: Site) -> None:
    _cloned(site, "--bare")
    site.options += ["--base", "HEAD"]


def _detached(site: Site) -> None:
    site.git("checkout", "-q", "--detach", "HEAD~1")


def _rebasing(site: Site) -> None:
    for name in ("one", "two"):
        site.write(f"{name}.txt", b"")
        site.commit(name)
    editor = "GIT_SEQUENCE_EDITOR=sed -i s/^pick/edit/"
    command = ["env", "-u", "GIT_DIR", editor, *GIT, "rebase", "-q", "-i", "HEAD~2"]
    subprocess.run(command, cwd=site.repository, check=True, capture_output=True)
    assert (site.repository / ".git" / "rebase-merge").is_dir()


def _linked(site: Site) -> None:
    site.git("worktree", "add", "-q", "-b", "other", str(site.folder / "linked"))
    site.repository = site.folder / "linked"


def _many(site: Site) -> None:
    for number in range(MANY):
        path = site.repository / "many" / f"{number % 200:03}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n", encoding="ascii")
    site.commit("many")


def _packed(site: Site) -> None:
    site.git("tag", "-a", "-m", "a tag", "v1")
    site.write("notes.txt", b"for the stash\n")
    site.git("stash", "-q")
    site.git("gc", "-q")
    site.git("commit-graph", "write", "--reachable")
    site.git("update-index", "--split-index", "--untracked-cache")


def _nothing(site: Site) -> None:
    pass


def _from_hook(site: Site) -> None:
    """The variables that git really gives to a hook of a commit in this repository."""
    found = site.marks / "hook-environment"
    hook = _common(site) / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv -0 > '{found}'\nexit 1\n", encoding="utf-8")
    hook.chmod(0o755)
    command = [*GIT, *WHILE_BUILDING, "commit", "-q", "--allow-empty", "-m", "never made"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(command, cwd=site.repository, env=clean, capture_output=True, check=False)
    seen = dict(line.partition("=")[::2] for line in found.read_text(encoding="utf-8").split("\0") if line)
    given = {name: value for name, value in seen.items() if name.startswith("GIT_")}
    assert "GIT_INDEX_FILE" in given, seen
    given.setdefault("GIT_DIR", site.git("rev-parse", "--git-dir").strip())  # as other hooks have it
    site.environment |= given
    found.unlink()
    hook.unlink()


def _marking(site: Site) -> None:
    """Hooks, monitors, drivers and filters that would all leave a mark."""
    mark = f"#!/bin/sh\ntouch '{site.marks}/ran-'$$\ncat\n"
    hooks = _common(site) / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).write_text(mark, encoding="utf-8")
        (hooks / name).chmod(0o755)
    program = str(hooks / "post-checkout")
    settings = {"core.fsmonitor": program, "diff.external": program, "diff.mark.textconv": program}
    settings |= {"core.pager": program, "core.sshCommand": program, "filter.mark.clean": program}
    settings |= {"filter.mark.smudge": program, "gpg.program": program, "core.alternateRefsCommand": program}
    for name, value in settings.items():
        site.git("config", name, value)
    attributes = _common(site) / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("*.txt diff=mark filter=mark\n", encoding="utf-8")


def _strict_filter(site: Site) -> None:
    """A filter that must not fail and always does."""
    attributes = _common(site) / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("*.txt filter=strict\n", encoding="utf-8")
    for name, value in {"clean": "false", "smudge": "false", "required": "true"}.items():
        site.git("config", f"filter.strict.{name}", value)


def _read_only_git(site: Site) -> None:
    site.mounts += [read_only(path) for path in site.git_dirs if path.is_relative_to(site.folder)]


def _other_owner(site: Site) -> None:
    """Somebody else's, open to everybody for reading."""
    for path in [site.folder, *site.folder.rglob("*")]:
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) | (0o555 if stat.S_ISDIR(mode) else 0o444))


Shape = Callable[[Site], None]
WORK: Mapping[str, Shape] = {
    "clean": _clean,
    "staged": _staged,
    "unstaged": _unstaged,
    "untracked": _untracked,
    "ignored": _ignored,
    "intent_to_add": _intent_to_add,
    "conflict": _conflict,
    "modes": _modes,
    "windows": _windows,
    "links": _links,
    "names": _names,
    "stale": _stale,
}
KINDS: Mapping[str, Shape] = {
    "plain": _plain,
    "submodules": _submodules,
    "lfs": _lfs,
    "sparse": _sparse,
    "shallow": _shallow,
    "bare": _bare,
    "detached": _detached,
    "rebasing": _rebasing,
    "linked": _linked,
    "many": _many,
    "packed": _packed,
}
AROUND: Mapping[str, Shape] = {
    "nothing": _nothing,
    "from_hook": _from_hook,
    "marking": _marking,
    "strict_filter": _strict_filter,
    "read_only_git": _read_only_git,
    "other_owner": _other_owner,
}
USERS = {"me": os.getuid(), "nobody": NOBODY}


def make_site(folder: Path, row: Row) -> Site:
    """Make the repository of a row: its kind, what lies in its tree, what surrounds it."""
    site = Site.made(folder)
    KINDS[row["kind"]](site)
    steps = [WORK[row["work"]], AROUND[row["around"]]]
    for step in steps[::-1] if row["around"] == "from_hook" else steps:  # its git needs an index in order
        step(site)
    for mark in site.marks.iterdir():
        mark.unlink()
    site.user = USERS[row["user"]]
    if site.user != os.getuid() and row["around"] != "other_owner":
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, site.user, site.user, follow_symlinks=False)
    return site


def fits(row: Row) -> bool:
    """Say whether the parts of a row go together: a bare repository has no work tree."""
    return row.get("kind") != "bare" or (
        row.get("work", "clean") == "clean" and row.get("around") != "from_hook"
    )


def _common(site: Site) -> Path:
    return (site.repository / site.git("rev-parse", "--git-common-dir").strip()).resolve()


def _blob(site: Site, text: bytes) -> str:
    return _feed(site, text, "hash-object", "-w", "--stdin").decode().strip()


def _feed(site: Site, data: bytes, *arguments: str) -> bytes:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        [*GIT, *WHILE_BUILDING, *arguments],
        cwd=site.repository,
        input=data,
        env=clean,
        capture_output=True,
        check=True,
    )
    return done.stdout
