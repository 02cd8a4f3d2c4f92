from __future__ import annotations

import pytest
from traces import below, changes

#: As strace 6.1 prints them, a line each; the user's folder is /u.
SEEN = {
    'openat(AT_FDCWD</>, "/u/f", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3</u/f>': "/u/f",
    'openat(AT_FDCWD</u/sub>, "f", O_RDWR) = -1 EROFS (Read-only file system)': "/u/sub/f",
    'openat(4</u>, "f", O_RDONLY|O_TRUNC <unfinished ...>': "/u/f",
    'open("/u/a, b (c)", O_WRONLY) = 3</u/a, b (c)>': "/u/a, b (c)",
    'rename("/elsewhere", "/u/f") = 0': "/u/f",
    'rename("/u/f", "/elsewhere") = 0': "/u/f",
    'renameat2(AT_FDCWD</>, "/x", 5</u>, "y", RENAME_NOREPLACE) = 0': "/u/y",
    'linkat(AT_FDCWD</>, "/u/objects/1", AT_FDCWD</>, "/mirror/1", 0) = 0': "/u/objects/1",
    'symlink("/anything", "/u/link") = 0': "/u/link",
    'unlink("/u/x/../f") = 0': "/u/f",
    "fchmod(3</u/f>, 0700) = 0": "/u/f",
    "utimensat(0</u/f>, NULL, NULL, 0) = 0": "/u/f",
    'utimensat(AT_FDCWD</u>, "f", NULL, 0) = 0': "/u/f",
    "ftruncate(3</u/f>, 0) = 0": "/u/f",
    'mkdir("/u", 0777) = -1 EEXIST (File exists)': "/u",
}
HARMLESS = (
    'openat(AT_FDCWD</>, "/u/f", O_RDONLY|O_CLOEXEC) = 3</u/f>',
    'openat(AT_FDCWD</>, "/user/f", O_WRONLY) = 3</user/f>',
    'newfstatat(AT_FDCWD</>, "/u/f", 0x7ffe, 0) = 0',
    'symlink("/u/f", "/elsewhere") = 0',
    'access("/u/f", W_OK) = 0',
    'readlink("/u/O_WRONLY", 0x1, 4096) = -1 EINVAL (Invalid argument)',
)


@pytest.mark.parametrize("line", SEEN)
def test_what_changes_something_is_seen(line: str) -> None:
    assert SEEN[line] in [one.path for one in below(changes([f"12 {line}"], "/"), "/u")]


@pytest.mark.parametrize("line", HARMLESS)
def test_what_changes_nothing_there_is_not(line: str) -> None:
    assert below(changes([f"12 {line}"], "/"), "/u") == []


def test_relative_names_are_followed_through_processes() -> None:
    lines = (
        '1 execve("/bin/x", ["x"], 0x1 /* 3 vars */) = 0',
        '1 chdir("/u") = 0',
        "1 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>",
        "1 <... clone resumed>, child_tidptr=0x1) = 2",
        '2 mkdir("d", 0777) = 0',
        '2 chdir("..") = 0',
        '2 mkdir("e", 0777) = 0',
        "1 fchdir(3</tmp>) = 0",
        '1 unlink("f") = 0',
    )
    assert [one.path for one in changes(lines, "/home")] == ["/u/d", "/e", "/tmp/f"]


def test_what_nobody_can_place_counts() -> None:
    lines = ("1 fchdir(3</tmp>) = 0", '9 mkdir("d", 0777) = 0')
    assert [one.path for one in below(changes(lines, "/"), "/u")] == [""]
