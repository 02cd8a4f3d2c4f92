"""Every gate of the project, in three sizes; further campaigns are asked for by name.

nox -s fast                  lint, layers, types, unit tests with few examples: the loop of daily work
nox                          the gate, as CI runs it: lint, tests, the demonstration, two real projects
nox -t thorough              before an issue is called resolved: the six sessions that follow
nox -s witnesses             tests that show once more, in another way, what a test of the gate shows
nox -s attacks               the attacks and cheats of which the gate tries one of each kind
nox -s backends              the integration tests under both event loops, every one of them
nox -s cluster               fixtures and real projects on other hosts: jobs of Slurm, nodes of Ray
nox -s newer                 unit tests and a smoke test under newer Pythons
nox -s docs                  the site of the documentation, without a warning

Markers (declared in pyproject.toml) say which session has a test. The gate has the tests that have none of
these: `witness` (session witnesses), `attack` (attacks), `campaign` (campaign, crashes,
new_process_and_warm), `real_projects` (real). It has those that are `slow`; `fast` and `newer` have not.
No combination of markers is in no session: `tests/unit/support/test_sessions.py`.

nox -s real -- --projects 6  all real projects
nox -s selftest -- --all       known attacks and honest rewrites, judged on this machine
nox -s ordinary_user         the tests as a user without privileges
nox -s read_only             the tests with the user's repository mounted read-only
nox -s shapes -- --minutes 60 --file shapes.jsonl      repositories of every shape, runs that end in every way
nox -s exhausted -- --minutes 20 --file exhausted.jsonl    runs on a machine that lacks something
nox -s traced                what a run would change below the repository, by strace: nothing
nox -s campaign -- --kills 20 --files 20000
nox -s trees -- --runs 100 --minutes 30 --file trees.jsonl    hostile trees, killed at every level
nox -s crashes -- --stub 160 --real 30 --race 10 --minutes 60 --stopped 60
nox -s new_process_and_warm -- --mutants 500 --minutes 20 --seeds 8
nox -s benchmark -- end_to_end --loop-seconds 2
nox -s benchmark -- honest --rewrites 350 --file honest.jsonl
nox -s benchmark -- survivors --file survivors.jsonl    mutants that the projects' own tests do not kill
nox -s benchmark -- checks --candidates 20     and likewise mutants, slots, memory, overheads, scaling --quick
nox -s benchmark -- race_calibration STATE record --minutes 60     then replay, live, rivals, packages, report
nox -s evaluate -- CANDIDATES    our own helper for nox, on our own code
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests", "demonstration", "real"]
nox.options.error_on_missing_interpreters = False
# The environment that runs nox has everything (README); a second one a session would only cost minutes.
nox.options.default_venv_backend = "none"

HERE = Path(__file__).parent
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
#: One worker more than the two cores that CI has: some tests wait for deadlines.
PARALLEL = ("-n", "3", "--dist", "worksteal")
GATE = "not (campaign or real_projects or witness or attack)"
FAST = f"{GATE} and not slow"
WITNESSES = "witness and not (campaign or real_projects)"
ATTACKS = "attack and not (witness or campaign or real_projects)"
#: The gate, its second witnesses and the attacks: all but what is long or needs the package index.
THOROUGH = "not (campaign or real_projects)"


def python(session: nox.Session, *arguments: str, **keywords: object) -> None:
    session.run(sys.executable, *arguments, external=True, **keywords)  # type: ignore[arg-type]


def pytest(session: nox.Session, *arguments: str, **environment: str) -> None:
    session.run(*PYTEST, *arguments, external=True, env=environment)


@nox.session
def fast(session: nox.Session) -> None:
    """Lint, layers, types and the unit tests with few examples of each, in about a minute."""
    lint(session)
    few = ("--hypothesis-profile", "few")
    # Bytecode of the tests is kept for the next time, which takes a third of what collecting takes otherwise.
    kept = {"PYTHONDONTWRITEBYTECODE": ""}
    pytest(
        session, "-n", "2", "--dist", "worksteal", *few, "-m", FAST, "tests/unit", *session.posargs, **kept
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Style, types, layers, and the syntax of what runs in older interpreters."""
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")
    python(session, "-m", "mypy")
    session.run(str(Path(sys.executable).with_name("lint-imports")), external=True)
    python(session, "-c", RUNNER_COMPILES)


#: The runner runs in the project's interpreter, 3.9 and later: its grammar is checked for each of them.
RUNNER_COMPILES = """
import ast, pathlib
for path in sorted(pathlib.Path("codeflash_parallel/_runner").rglob("*.py")):
    for minor in range(9, 15):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, minor))
print("The runner's grammar is that of 3.9 to 3.14.")
"""


def compile_commands(session: nox.Session) -> None:
    """Compile what commands import: where no bytecode is written, hundreds of them would do so."""
    python(session, "-m", "compileall", "-q", "-x", "_runner", "codeflash_parallel")


@nox.session
def tests(session: nox.Session) -> None:
    """Unit, integration and acceptance tests, in random order and in parallel."""
    compile_commands(session)
    pytest(session, *PARALLEL, "-m", GATE, *session.posargs)


@nox.session(tags=["thorough"])
def witnesses(session: nox.Session) -> None:
    """Tests that show once more, in another way or on another project, what a test of the gate shows."""
    compile_commands(session)
    pytest(session, *PARALLEL, "-m", WITNESSES, *session.posargs)


@nox.session(tags=["thorough"])
def attacks(session: nox.Session) -> None:
    """Attacks on the judgement, the clock and the machine; the gate tries one of each kind."""
    compile_commands(session)
    pytest(session, *PARALLEL, "-m", ATTACKS, *session.posargs)


@nox.session
def demonstration(session: nox.Session) -> None:
    """Run what the README's first command runs; its document says what is expected of every candidate."""
    compile_commands(session)
    with tempfile.TemporaryDirectory(prefix="demonstration-") as folder:
        document = str(Path(folder) / "document.json")
        form = ("--output-format", "json", "--output", document)
        python(session, "fixtures/demonstration/run.py", *session.posargs, *form)
        python(session, "tests/expectations.py", "demonstration", document)


@nox.session
def real(session: nox.Session) -> None:
    """Real third-party projects from the package index: two by default, `-- --projects 6` for all."""
    parser = argparse.ArgumentParser(prog="nox -s real --")
    parser.add_argument("--projects", type=int, default=2)
    options, rest = parser.parse_known_args(session.posargs)
    environment = {"CODEFLASH_PARALLEL_REAL_PROJECTS": str(options.projects)}
    compile_commands(session)
    pytest(session, "-m", "real_projects", "tests/real_projects", *rest, **environment)


@nox.session(tags=["thorough"])
def newer(session: nox.Session) -> None:
    """Unit tests and a smoke of integration on every newer Python of this machine, side by side."""
    found = newer_interpreters()
    if not found:
        session.log("skipped: no Python newer than %s was found", sys.version.split()[0])
        return
    with ThreadPoolExecutor(len(found)) as pool:
        ended = list(pool.map(functools.partial(tests_under, session.posargs), found))
    for interpreter, (status, output) in zip(found, ended, strict=True):
        session.log("%s ended with status %d:\n%s", interpreter, status, output)
    if any(status for status, _ in ended):
        session.error("A newer Python failed.")


@nox.session(tags=["thorough"])
def backends(session: nox.Session) -> None:
    """Run all tests of the library under asyncio and trio (campaigns have asyncio alone)."""
    paths = ("tests/integration", "tests/acceptance/test_quiet_between_runs.py")
    arguments = (*PARALLEL, "-m", THOROUGH, *paths, *session.posargs)
    pytest(session, *arguments, CODEFLASH_PARALLEL_BACKENDS="all")


@nox.session(tags=["thorough"], venv_backend="venv")
def docs(session: nox.Session) -> None:
    """Build the site of the documentation into .nox/site; any warning is an error."""
    session.install("-q", "-e", ".[docs]")
    session.run("python", "docs/make_reference.py", "--check")
    session.run("mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(tags=["thorough"])
def cluster(session: nox.Session) -> None:
    """Fixtures and real projects on other hosts: Slurm's jobs as processes, and three nodes of Ray."""
    verdicts = ("-m", "", "tests/acceptance/test_fixtures.py")
    real = ("tests/real_projects/test_real_projects.py", "-k", "test_verdicts")
    engines = [name for name, package in (("slurm", "submitit"), ("ray", "ray")) if _is_there(package)]
    for engine in engines:
        script = ("benchmarks/cluster_runs.py", "tests", "--engine", engine, "-n", "2")
        python(session, *script, *verdicts)
        python(session, *script, *real, *session.posargs)
    if "ray" in engines:
        pytest(session, "tests/acceptance/test_many_machines.py", CODEFLASH_TEST_RAY="1")
    else:
        session.log("skipped: Ray is not installed (pip install -e '.[ray]')")
    session.log("skipped: a real Slurm; sbatch is %s", shutil.which("sbatch") or "not here")


def _is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


@nox.session
def read_only(session: nox.Session) -> None:
    """Run the tests while the user's repository is mounted read-only (root can mount it so; others skip)."""
    probe = ["unshare", "-m", "--propagation", "private", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    status, said = _said_by(probe) if os.geteuid() == 0 else (1, f"uid {os.geteuid()} may not mount")
    if status:
        session.skip(f"no mounts here: {said.strip()}")
    chosen = session.posargs or ["tests/integration", "tests/acceptance"]
    command = [*probe[:4], *PYTEST, *PARALLEL, "-m", f"{THOROUGH} and not writes_while_open", *chosen]
    session.run(*command, external=True, env={"CODEFLASH_TEST_READ_ONLY": "1"})


@nox.session
def shapes(session: nox.Session) -> None:
    """Shapes of repositories and ways out of a run, pairwise; arguments are those of the script."""
    python(session, "benchmarks/shapes.py", *session.posargs)


@nox.session
def exhausted(session: nox.Session) -> None:
    """Runs without descriptors, memory, processes, space; arguments are those of the script."""
    python(session, "benchmarks/exhausted.py", *session.posargs)


@nox.session
def traced(session: nox.Session) -> None:
    """One run under strace, in which nothing of the user's would be changed; skipped without strace."""
    if shutil.which("strace") is None:
        session.skip("strace is not installed")
    python(session, "benchmarks/traced.py", *session.posargs)


@nox.session
def ordinary_user(session: nox.Session) -> None:
    """Run the tests as a user without privileges (needs root to become one; skipped otherwise)."""
    if os.geteuid() != 0:
        session.skip(f"already an ordinary user: uid {os.geteuid()}")
    interpreter = _interpreter_for(NOBODY)
    if interpreter is None:
        session.skip(f"no Python from 3.11 on can be run by an ordinary user here (tried {ORDINARY_PYTHONS})")
    with tempfile.TemporaryDirectory(prefix="ordinary-user-") as name:
        home = Path(name)
        copy, own = home / "checkout", home / "venv" / "bin" / "python"
        session.run("git", "clone", "-q", str(HERE), str(copy), external=True)
        session.run(str(interpreter), "-m", "venv", str(home / "venv"), external=True)
        session.run(str(own), "-m", "pip", "install", "-q", "-e", f"{copy}[dev]", external=True)
        session.run("chown", "-R", "65534:65534", str(home), external=True)
        session.chdir(copy)
        environment = {"HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
        arguments = session.posargs or ["tests/unit", "tests/integration", "tests/acceptance"]
        command = [*NOBODY, str(own), *PYTEST[1:], *PARALLEL, "-m", THOROUGH, *arguments]
        session.run(*command, external=True, env=environment)


#: Becomes the user that owns nothing.
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
#: Interpreters that may be open to everybody; the one that runs nox may lie in a closed home.
ORDINARY_PYTHONS = (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3")


def _interpreter_for(user: tuple[str, ...]) -> Path | None:
    # It must be able to start itself again: setpriv's own start still has root's way through closed folders.
    again = "import subprocess; subprocess.run([sys.executable, '-c', ''], check=True)"
    probe = f"import sys, venv, ensurepip; {again}; sys.exit(sys.version_info < (3, 11))"
    for path in ORDINARY_PYTHONS:
        command = [*user, path, "-c", probe]
        if (
            shutil.which(user[0])
            and subprocess.run(command, capture_output=True, check=False).returncode == 0
        ):
            return Path(path)
    return None


#: Modules of acceptance of which the gate leaves something to `campaign`; others have sessions of their own.
ACCEPTANCE_CAMPAIGN = (
    *(
        "commands",
        "documented_commands",
        "fixtures",
        "host_loop",
        "odd_projects",
        "queue",
        "queue_daemon",
        "streams",
        "troubles",
    ),
)


@nox.session
def campaign(session: nox.Session) -> None:
    """Randomised kills and interrupts, `-- --kills N` of each; a slot of `--files N`; long races.

    And `--times N` times as many simulated races and drawn examples as in the gate.
    """
    parser = argparse.ArgumentParser(prog="nox -s campaign --")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=8)
    options, rest = parser.parse_known_args(session.posargs)
    tests = (
        "tests/acceptance/test_kill.py",
        "tests/integration/test_slots_restored.py::test_the_same_with_many_files",
    )
    sizes = {"CODEFLASH_PARALLEL_KILLS": options.kills, "CODEFLASH_PARALLEL_FILES": options.files}
    pytest(session, *tests, *rest, **{name: str(size) for name, size in sizes.items()})
    pytest(
        session, *PARALLEL, "-m", "campaign", "tests/integration",
        *(f"tests/acceptance/test_{name}.py" for name in ACCEPTANCE_CAMPAIGN), *rest,
    )  # fmt: skip
    drawn = ("-m", "campaign or slow or hypothesis", "tests/unit")
    drawn += ("tests/integration/test_swapping.py", "tests/unit/workspace/git/test_patch.py")
    pytest(session, *PARALLEL, *drawn, *rest, CODEFLASH_PARALLEL_TIMES=str(options.times))


@nox.session
def crashes(session: nox.Session) -> None:
    """Kill the evaluator at random moments and resume; then stop everything, fill the disk, step the clock.

    `-- --stub N --real N --race N` kills for `--minutes M`; `--file` keeps what is done, so that the next
    call goes on from there. `--stopped S`: seconds for which everything is stopped.
    """
    parser = argparse.ArgumentParser(prog="nox -s crashes --")
    for name, default in (("stub", "160"), ("real", "30"), ("race", "10"), ("minutes", "60"), ("seed", "1")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--stopped", default="60")
    parser.add_argument("--file", default="")
    options, rest = parser.parse_known_args(session.posargs)
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        state = options.file or str(Path(folder) / "state.jsonl")
        sizes = [
            (f"--{name}", getattr(options, name)) for name in ("stub", "real", "race", "minutes", "seed")
        ]
        python(session, "benchmarks/crashes.py", state, *(word for size in sizes for word in size))
    tests = ("tests/acceptance/test_stopped_full_stepped.py", "tests/integration/test_resume.py")
    pytest(session, *tests, "-m", "campaign", *rest, CODEFLASH_PARALLEL_STOPPED_S=options.stopped)


@nox.session
def trees(session: nox.Session) -> None:
    """Hostile trees of processes are killed at every level that works here; who survives is counted.

    `-- --runs N` of each shape below `sandbox`, `--sure-runs N` there, `--minutes M`; `--file` keeps what is
    done, so that the next call goes on from there.
    """
    python(session, "benchmarks/process_trees.py", "run", *session.posargs)


@nox.session
def new_process_and_warm(session: nox.Session) -> None:
    """The same verdicts with and without `--new-process`: fixtures, real projects, random patches, mutants.

    `-- --seeds N` of random patches, `--mutants N` for `--minutes M`; `--file` keeps what is done, so that
    the next call goes on from there.
    """
    parser = argparse.ArgumentParser(prog="nox -s new_process_and_warm --")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--file", default="")
    options, rest = parser.parse_known_args(session.posargs)
    tests = ("tests/acceptance/test_new_process_and_warm.py", "tests/real_projects/test_both_ways.py")
    pytest(session, *PARALLEL, *tests, *rest, CODEFLASH_PARALLEL_SEEDS=str(options.seeds))
    sizes = ["--mutants", str(options.mutants), "--minutes", str(options.minutes)]
    kept = ["--file", options.file] if options.file else []
    python(session, "benchmarks/agreement.py", *sizes, *kept)


@nox.session
def queue_store(session: nox.Session) -> None:
    """Kill, interrupt, load and fill the store of the queue; simulate its policy. Sizes as in the script.

    `-- --file` keeps what is done, so that the next call goes on from there; `--times N` does N times as many
    histories of the models.
    """
    parser = argparse.ArgumentParser(prog="nox -s queue_store --")
    parser.add_argument("--file", default="")
    parser.add_argument("--times", default="10")
    options, rest = parser.parse_known_args(session.posargs)
    with tempfile.TemporaryDirectory(prefix="queue-store-") as folder:
        python(session, "benchmarks/queue_store.py", options.file or str(Path(folder) / "state.jsonl"), *rest)
    models = ("tests/unit/queue/test_policy.py", "tests/integration/test_queue_model.py")
    pytest(session, *models, CODEFLASH_PARALLEL_TIMES=options.times)


@nox.session
def queue_kills(session: nox.Session) -> None:
    """Kill daemon, workers and submitters with the real engine at work; look whether anything was lost.

    `-- --kills N --seed N`; `--state FOLDER` keeps what is done, so that the next call goes on from there.
    """
    with tempfile.TemporaryDirectory(prefix="queue-kills-") as folder:
        rest = session.posargs if "--state" in session.posargs else (*session.posargs, "--state", folder)
        python(session, "benchmarks/queue_kills.py", *rest)


@nox.session
def queue_end_to_end(session: nox.Session) -> None:
    """Agents share one daemon: real candidates, a flood, a dead agent, a dead daemon.

    `-- --rounds N --candidates N --races N --kills N` for `--minutes M`; `--file` keeps what is done, so that
    the next call goes on from there.
    """
    parser = argparse.ArgumentParser(prog="nox -s queue_end_to_end --")
    parser.add_argument("--file", default="")
    options, rest = parser.parse_known_args(session.posargs)
    with tempfile.TemporaryDirectory(prefix="queue-end-to-end-") as folder:
        state = options.file or str(Path(folder) / "state.jsonl")
        python(session, "benchmarks/queue_end_to_end.py", state, *rest)


@nox.session
def selftest(session: nox.Session) -> None:
    """Judge known attacks and honest candidates on this machine; say what is caught."""
    python(session, "-m", "selftest", *session.posargs, env={"PYTHONPATH": str(HERE / "tests")})


@nox.session
def benchmark(session: nox.Session) -> None:
    """Run one script of `benchmarks/` by its name, with its arguments."""
    if not session.posargs:
        scripts = ", ".join(sorted(p.stem for p in (HERE / "benchmarks").glob("*.py")))
        session.error(f"Name one of: {scripts}.")
    name, *arguments = session.posargs
    python(session, f"benchmarks/{name}.py", *arguments)


@nox.session
def evaluate(session: nox.Session) -> None:
    """Evaluate candidates for our own code through our own helper."""
    from codeflash_parallel.hosts.nox import evaluate_session

    evaluate_session(session)


def newer_interpreters() -> list[Path]:
    """Return one interpreter for each Python newer than the running one, on PATH or under pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[tuple[int, int], Path] = {}
    for minor in range(sys.version_info.minor + 1, sys.version_info.minor + 6):
        on_path = shutil.which(f"python3.{minor}")
        candidates = [Path(on_path)] if on_path else []
        candidates += sorted(pyenv.glob(f"3.{minor}.*/bin/python"))
        working = next((p for p in candidates if _is_python(p, minor)), None)
        if working:
            found[3, minor] = working
    return list(found.values())


def _is_python(path: Path, minor: int) -> bool:
    # A shim of a version manager may be on PATH and still run nothing.
    probe = [str(path), "-c", "import sys; print(sys.version_info[1])"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == str(minor)


#: Where no bytecode is written, every process would compile these anew: half a second for pytest alone.
COMPILED_ONCE = """
import sys
sys.dont_write_bytecode = False
import anyio._backends._asyncio, hypothesis, jsonschema, pytest, trio
"""


def tests_under(posargs: Sequence[str], interpreter: Path) -> tuple[int, str]:
    """Run the quick tests under another Python, on one core; return their status and all that was said."""
    name = _said_by([str(interpreter), "-V"])[1].split()[1]
    folder = HERE / ".nox" / f"python-{name}"
    own, asked = str(folder / "bin" / "python"), _what_is_asked_for()
    # Installed once: the pip that runs serves every environment, and the tools of `lint` are not for these.
    make = [str(interpreter), "-m", "venv", "--without-pip", str(folder)]
    # Most of what is installed is never imported: what every runner and command imports is compiled, once.
    install = [sys.executable, "-m", "pip", "--python", own, "install", "-q", "--no-compile", "-e", ".[test]"]
    stamp, said = folder / "installed", ""
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != asked:
        for command in (make, install, [own, "-c", COMPILED_ONCE]):
            status, said = _said_by(command)
            if status:
                return status, said
        stamp.write_text(asked, encoding="utf-8")
    quick = [
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile",
        "few",
        "-m",
        FAST,
        "tests/unit",
    ]
    status, results = _said_by([own, *quick, "tests/integration/test_smoke.py", *posargs])
    return status, said + results


def _said_by(command: Sequence[str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


def _what_is_asked_for() -> str:
    # An editable installation leads into this folder, and has what pyproject.toml asks for.
    return f"{HERE} {hashlib.sha256((HERE / 'pyproject.toml').read_bytes()).hexdigest()}"
