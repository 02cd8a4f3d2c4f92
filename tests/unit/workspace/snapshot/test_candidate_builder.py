from __future__ import annotations

import sys
from pathlib import Path

import pytest
from worktree_support import MODULE, World, make, request, world

from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateOrigin,
    FileText,
    FileTexts,
    GitRef,
    ModelAnswer,
    PatchText,
    Replacement,
    Unappliable,
    digest_of,
)
from codeflash_parallel.workspace.git.git_client import Git
from codeflash_parallel.workspace.snapshot import candidate_builder

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]
FASTER = MODULE.replace("x + x\n", "2 * x\n", 1)


def patch_of(world: World, files: dict[str, str | bytes | None], *options: str) -> str:
    """Make a patch with git itself, in a clone of the user's repository."""
    clone = world.base / "clone"
    world.git("clone", "-q", str(world.root), str(clone))
    world.git("config", "core.autocrlf", "false", at=clone)
    for name, data in files.items():
        if data is None:
            (clone / name).unlink()
        else:
            world.write({name: data}, at=clone)
    world.git("add", "-A", at=clone)
    return world.git("diff", "--cached", "--binary", *options, at=clone) + "\n"


async def only(world: World, content: object, *targets: str, **options: object) -> Candidate | Unappliable:
    async with world.mirror() as mirror:
        return await make(mirror, await mirror.snapshot(request()), content, *targets, **options)  # type: ignore[arg-type]


def refused(made: Candidate | Unappliable, code: str, words: str = "") -> None:
    assert isinstance(made, Unappliable), made
    assert made.code == code, made
    assert words in made.reason
    assert "\n" not in made.reason


def edits_of(made: Candidate | Unappliable) -> dict[str, bytes | None]:
    assert isinstance(made, Candidate), made
    assert [edit.path for edit in made.edits] == sorted(edit.path for edit in made.edits)
    return {edit.path: edit.new for edit in made.edits}


async def test_a_patch_becomes_edits(world: World) -> None:
    world.init()
    patch = patch_of(world, {"pkg/mod.py": FASTER, "pkg/new.py": "new = 1", "README": None})
    made = await only(world, PatchText(patch=patch))
    assert edits_of(made) == {"README": None, "pkg/mod.py": FASTER.encode(), "pkg/new.py": b"new = 1"}
    assert isinstance(made, Candidate)
    assert made.origin is CandidateOrigin.PATCH
    assert [e.old_digest for e in made.edits] == [digest_of(b"read\n"), digest_of(MODULE.encode()), None]
    assert "--- a/pkg/mod.py\n+++ b/pkg/mod.py" in made.diff
    assert "\\ No newline at end of file" in made.diff


async def test_a_patch_takes_three_git_processes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.init()
    patch = PatchText(patch=patch_of(world, {"pkg/mod.py": FASTER, "pkg/new.py": "new = 1\n"}))
    started: list[str] = []
    run = Git.run

    def counted(git: Git, *arguments: str, stdin: bytes = b"") -> bytes:
        started.append(arguments[0])
        return run(git, *arguments, stdin=stdin)

    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        first = await make(mirror, snapshot, patch)
        monkeypatch.setattr(Git, "run", counted)
        assert edits_of(await make(mirror, snapshot, patch)) == edits_of(first)
    assert started == ["apply", "diff-index", "cat-file"]


async def test_renames_and_modes(world: World) -> None:
    world.init({"pkg/mod.py": MODULE, "tool": "#!/bin/sh\n"})
    clone = world.base / "clone"
    world.git("clone", "-q", str(world.root), str(clone))
    world.git("mv", "pkg/mod.py", "pkg/moved.py", at=clone)
    (clone / "tool").chmod(0o755)
    patch = world.git("diff", "HEAD", "-M", at=clone) + "\n"
    assert "rename from" in patch
    made = await only(world, PatchText(patch=patch))
    assert edits_of(made) == {"pkg/mod.py": None, "pkg/moved.py": MODULE.encode(), "tool": b"#!/bin/sh\n"}
    assert isinstance(made, Candidate)
    assert [edit.executable for edit in made.edits] == [False, False, True]


async def test_a_hunk_that_fails_is_named(world: World) -> None:
    world.init()
    patch = patch_of(world, {"pkg/mod.py": FASTER})
    world.write({"pkg/mod.py": "quite = 'different'\n"})
    refused(await only(world, PatchText(patch=patch)), "DOES_NOT_APPLY", "pkg/mod.py:1")


@pytest.mark.parametrize("patch", ["", "not a patch", "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n"])
async def test_what_is_no_patch(world: World, patch: str) -> None:
    world.init()
    refused(await only(world, PatchText(patch=patch)), "DOES_NOT_APPLY")


@pytest.mark.parametrize(
    "options", [(), ("--relative=apps/one",), ("--no-prefix",), ("--no-prefix", "--relative=apps/one")]
)
async def test_a_patch_from_the_project_or_without_prefix(world: World, options: tuple[str, ...]) -> None:
    world.init({"apps/one/setup.py": "", "apps/one/mod.py": MODULE})
    patch = patch_of(world, {"apps/one/mod.py": FASTER}, *options)
    async with world.mirror(world.root / "apps/one") as mirror:
        made = await make(mirror, await mirror.snapshot(request()), PatchText(patch=patch))
        assert edits_of(made) == {"apps/one/mod.py": FASTER.encode()}
        failing = await make(
            mirror,
            await mirror.snapshot(request()),
            PatchText(patch=patch.replace("return x + x\n", "return y\n")),
        )
        refused(failing, "DOES_NOT_APPLY", "patch failed: apps/one/mod.py")


async def test_windows_endings_survive(world: World) -> None:
    windows, faster = MODULE.replace("\n", "\r\n"), FASTER.replace("\n", "\r\n")
    world.init({"pkg/mod.py": windows})
    with_returns = patch_of(world, {"pkg/mod.py": faster})
    without = with_returns.replace("\r\n", "\n")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        texts = FileTexts(files=(FileText(path="pkg/mod.py", text=FASTER),))
        replacement = Replacement(code="def double(x):\n    return 2 * x\n")
        for content in (PatchText(patch=with_returns), PatchText(patch=without), texts, replacement):
            made = await make(mirror, snapshot, content, "pkg/mod.py::double")
            assert edits_of(made) == {"pkg/mod.py": faster.encode()}, content


async def test_a_replacement_is_spliced_in(world: World) -> None:
    world.init({"pkg/mod.py": MODULE, "pkg/other.py": "def double(x):\n    return x\n"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        code = "def double(x):\n    return 2 * x\n"
        for content, targets in (
            (Replacement(code=code), ("pkg/mod.py::double", "pkg/mod.py::triple")),
            (Replacement(code=code, function="pkg/mod.py::double"), ()),
        ):
            made = await make(mirror, snapshot, content, *targets)
            assert edits_of(made) == {"pkg/mod.py": FASTER.encode()}
        refused(
            await make(mirror, snapshot, Replacement(code=code), "pkg/mod.py::triple"),
            "DOES_NOT_APPLY",
            "triple",
        )
        refused(
            await make(mirror, snapshot, Replacement(code="def f(:"), "pkg/mod.py::double"), "DOES_NOT_PARSE"
        )
        refused(
            await make(mirror, snapshot, Replacement(code=code, function="nonsense")),
            "DOES_NOT_APPLY",
            "nonsense",
        )
        refused(
            await make(mirror, snapshot, Replacement(code=code, function="no.py::f")),
            "DOES_NOT_APPLY",
            "no.py",
        )
        same = await make(
            mirror, snapshot, Replacement(code="def double(x):\n    return x + x\n"), "pkg/mod.py::double"
        )
        assert edits_of(same) == {}


async def test_the_encoding_of_a_file_is_kept(world: World) -> None:
    text = "# coding: latin-1\ndef f():\n    return 'é'\n"
    world.init({"m.py": text.encode("latin-1")})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        made = await make(mirror, snapshot, Replacement(code="def f():\n    return 'ü'\n"), "m.py::f")
        assert edits_of(made) == {"m.py": text.replace("é", "ü").encode("latin-1")}
        refused(
            await make(mirror, snapshot, Replacement(code="def f():\n    return '€'\n"), "m.py::f"),
            "DOES_NOT_APPLY",
            "€",
        )


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (PatchText(patch="--- a/pkg/mod.py\n+++ b/pkg/mod.py\n+# \ud83d\n"), "DOES_NOT_APPLY"),
        (GitRef(ref="\ud83d"), "DOES_NOT_APPLY"),
        (Replacement(code="def double(x):\n    return x  # \ud83d\n"), "DOES_NOT_PARSE"),
        (Replacement(code="def double(x):\n    return x\n", function="\ud83d.py::f"), "DOES_NOT_APPLY"),
        (FileTexts(files=(FileText(path="a.py", text="# \ud83d\n"),)), "DOES_NOT_APPLY"),
    ],
)
async def test_half_an_emoji_is_the_candidates_own_trouble(world: World, content: object, code: str) -> None:
    world.init()
    refused(await only(world, content, "pkg/mod.py::double"), code)


async def test_whole_files(world: World) -> None:
    world.init({"a.py": "a = 1\n", "b.py": "b = 1\n", "deep/c.py": "c = 1\n"})
    files = (
        FileText(path="a.py", text="a = 2\n"),
        FileText(path="b.py", text=None),
        FileText(path="b.py.d/new.py", text="n = 1\n"),
        FileText(path="deep/c.py", text="c = 1\n"),
    )
    made = await only(world, FileTexts(files=files))
    assert edits_of(made) == {"a.py": b"a = 2\n", "b.py": None, "b.py.d/new.py": b"n = 1\n"}


@pytest.mark.parametrize(
    "files",
    [
        (FileText(path="nothing.py", text=None),),
        (FileText(path="a.py", text="1"), FileText(path="a.py", text="2")),
        (FileText(path="a.py/x.py", text="1"),),
        (FileText(path="deep", text="1"),),
    ],
)
async def test_whole_files_that_do_not_fit(world: World, files: tuple[FileText, ...]) -> None:
    world.init({"a.py": "a = 1\n", "deep/c.py": "c = 1\n"})
    refused(await only(world, FileTexts(files=files)), "DOES_NOT_APPLY")


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../x.py",
            "/etc/x.py",
            ".git/hooks/x",
            "a\0b.py",
            "a\nb.py",
            "\ud800.py",
            "tests/test_a.py",
            "conftest.py",
        ),
        *(
            "pyproject.toml",
            "sitecustomize.py",
            "x.pth",
            "x.so",
            "PKG/mod.py",
            "json.py",
            "gen/test_x.py",
            ".gitattributes",
        ),
    ],
)
async def test_paths_that_no_candidate_may_touch(world: World, path: str) -> None:
    world.init()
    world.write({"x.txt": "generated"}, at=world.base / "gen")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request(extra_tests=str(world.base / "gen")))
        made = await make(mirror, snapshot, FileTexts(files=(FileText(path=path, text="x = 1\n"),)))
        refused(made, "PATH_NOT_ALLOWED")
        made = await make(mirror, snapshot, FileTexts(files=(FileText(path="gen/x.txt", text="x = 1\n"),)))
        refused(made, "PATH_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["../x.py", "/etc/x.py", ".git/config", "tests/test_a.py", "conftest.py"])
async def test_patches_to_such_paths(world: World, path: str) -> None:
    world.init()
    patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x = 1\n"
    refused(await only(world, PatchText(patch=patch)), "PATH_NOT_ALLOWED")


async def test_links_and_submodules_are_refused(world: World) -> None:
    world.init()
    link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
    module = (
        "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n"
        f"+Subproject commit {'1' * 40}\n"
    )
    for patch in (link, module):
        made = await only(world, PatchText(patch=patch))
        assert isinstance(made, Unappliable)
        assert made.code in {"PATH_NOT_ALLOWED", "DOES_NOT_APPLY"}
    assert (await only(world, PatchText(patch=link))).code == "PATH_NOT_ALLOWED"  # type: ignore[union-attr]


async def test_what_does_not_parse(world: World) -> None:
    world.init({"a.py": "a = 1\n", "template.py": "{{ broken }} here\n", "data.txt": "d"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())

        async def one(path: str, text: str, interpreter: Path | None = None) -> Candidate | Unappliable:
            files = FileTexts(files=(FileText(path=path, text=text),))
            return await make(mirror, snapshot, files, interpreter=interpreter)

        refused(await one("a.py", "def f(:\n"), "DOES_NOT_PARSE", "a.py does not parse")
        refused(await one("a.py", "def f(:\n", Path(sys.executable)), "DOES_NOT_PARSE", "line 1")
        refused(await one("a.py", "x = '\0'\n"), "DOES_NOT_PARSE")
        refused(await one("a.py", "(" * 5000), "DOES_NOT_PARSE")
        assert edits_of(await one("template.py", "{{ still broken }} here\n"))
        assert edits_of(await one("data.txt", "def f(:"))
        assert edits_of(await one("a.py", "x = '\\d'  # warns\n"))


async def test_syntax_that_only_the_projects_python_knows(world: World, tmp_path: Path) -> None:
    world.init({"a.py": "a = 1\n"})
    future = tmp_path / "python-of-the-future"
    future.write_text("#!/bin/sh\ncat > /dev/null\n")
    future.chmod(0o755)
    texts = FileTexts(files=(FileText(path="a.py", text="a ?= 1\n"),))
    assert edits_of(await only(world, texts, interpreter=future))
    refused(await only(world, texts, interpreter=Path(sys.executable)), "DOES_NOT_PARSE")
    refused(await only(world, texts, interpreter=tmp_path / "missing"), "DOES_NOT_PARSE")


async def test_a_ref_is_what_it_changed_since_it_left(world: World) -> None:
    world.init()
    world.git("config", "diff.noprefix", "true")
    world.git("config", "diff.external", "false")
    world.git("checkout", "-q", "-b", "faster")
    world.write({"pkg/mod.py": FASTER})
    world.git("commit", "-qam", "faster")
    world.git("checkout", "-q", "main")
    world.write({"README": "moved on\n"})
    world.git("commit", "-qam", "moved on")
    world.write({"pkg/__init__.py": "dirty = 1\n"})
    world.git("checkout", "-q", "--orphan", "unrelated")
    world.git("commit", "-qm", "unrelated")
    world.git("checkout", "-q", "main")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        made = await make(mirror, snapshot, GitRef(ref="faster"))
        assert edits_of(made) == {"pkg/mod.py": FASTER.encode()}
        assert isinstance(made, Candidate)
        assert made.origin is CandidateOrigin.REF
        refused(await make(mirror, snapshot, GitRef(ref="no-such-ref")), "DOES_NOT_APPLY", "no-such-ref")
        refused(await make(mirror, snapshot, GitRef(ref="--all")), "DOES_NOT_APPLY")
        refused(await make(mirror, snapshot, GitRef(ref="unrelated")), "DOES_NOT_APPLY", "common ancestor")
        assert edits_of(await make(mirror, snapshot, GitRef(ref="main"))) == {}


async def test_a_ref_after_the_user_amended_and_collected(world: World) -> None:
    world.init()
    world.git("checkout", "-q", "-b", "faster")
    world.write({"pkg/mod.py": FASTER})
    world.git("commit", "-qam", "faster")
    world.git("checkout", "-q", "main")
    world.write({"README": "more\n"})
    world.git("commit", "-qam", "more")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        world.git("commit", "-q", "--amend", "-m", "amended")
        world.git("reflog", "expire", "--expire=now", "--all")
        world.git("gc", "-q", "--prune=now")
        world.freeze()
        assert edits_of(await make(mirror, snapshot, GitRef(ref="faster"))) == {"pkg/mod.py": FASTER.encode()}


async def test_a_mirror_that_is_lost_in_between(world: World) -> None:
    import shutil

    world.init()
    patch = patch_of(world, {"pkg/mod.py": FASTER})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        shutil.rmtree(mirror.home.mirror / "objects")
        assert edits_of(await make(mirror, snapshot, PatchText(patch=patch))) == {
            "pkg/mod.py": FASTER.encode()
        }


async def test_staged_as_it_was_made(world: World) -> None:
    world.init()
    patch = patch_of(world, {"pkg/mod.py": FASTER, "pkg/new.py": "n = 1\n", "README": None})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        made = await make(mirror, snapshot, PatchText(patch=patch))
        assert isinstance(made, Candidate)
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            await slot.stage(made.edits)
            assert (slot.workspace.root / "pkg/mod.py").read_text() == FASTER
            assert not (slot.workspace.root / "README").exists()


async def test_an_interpreter_is_asked(tmp_path: Path) -> None:
    assert candidate_builder._compiles(Path(sys.executable), b"raise SystemExit(3)\n")
    assert not candidate_builder._compiles(Path(sys.executable), b"a ?= 1\n")
    assert not candidate_builder._compiles(tmp_path / "missing", b"a = 1\n")


def answer(*blocks: tuple[str, str]) -> ModelAnswer:
    fenced = "".join(f"```python:{path}\n{code}```\nand\n" for path, code in blocks)
    return ModelAnswer(answer=f"This is faster:\n\n{fenced}")


DOUBLED = "def double(x):\n    return 2 * x\n"


@pytest.mark.parametrize("code", [DOUBLED, FASTER], ids=["one function", "whole file"])
async def test_a_block_of_an_answer_is_a_file_or_functions_of_it(world: World, code: str) -> None:
    world.init()
    path = "pkg/mod.py"
    made = await only(world, answer((path, code), ("new/helper.py", "A = 1\n")), f"{path}::double")
    assert edits_of(made) == {"new/helper.py": b"A = 1\n", path: FASTER.encode()}
    assert isinstance(made, Candidate)
    assert made.origin is CandidateOrigin.ANSWER


async def test_several_blocks_of_one_file_are_taken_in_their_order(world: World) -> None:
    world.init()
    path = "pkg/mod.py"
    tripled = "def triple(x):\n    return 3 * x\n"
    made = await only(world, answer((path, DOUBLED), (path, tripled)), f"{path}::double")
    assert edits_of(made) == {path: FASTER.replace("x + x + x", "3 * x").encode()}


async def test_a_single_block_without_a_path_replaces_the_target(world: World) -> None:
    world.init()
    content = ModelAnswer(answer=f"```python\n{DOUBLED}```\n")
    made = await only(world, content, "pkg/mod.py::double")
    assert edits_of(made) == {"pkg/mod.py": FASTER.encode()}


async def test_an_answer_that_cannot_be_taken_says_why(world: World) -> None:
    world.init()
    path = "pkg/mod.py"
    target = f"{path}::double"
    refused(
        await only(world, ModelAnswer(answer="It is fast."), target), "DOES_NOT_APPLY", "no block of code"
    )
    refused(await only(world, answer((path, "A = 1\n")), target), "DOES_NOT_APPLY", "neither the whole file")
    refused(await only(world, answer((path, "def (\n")), target), "DOES_NOT_PARSE", f"The block of {path}")
    refused(await only(world, answer(("../x.py", "A = 1\n")), target), "PATH_NOT_ALLOWED", "../x.py")
