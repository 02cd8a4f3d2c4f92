from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeflash_parallel.config.settings import HOSTS, SETTINGS, ComparisonMode, Settings
from codeflash_parallel.config.settings_reader import (
    RUN_OF,
    SUBMITTER,
    cache_root,
    queue_folder,
    read_settings,
    run_of,
    submitter_of,
    user_file,
)
from codeflash_parallel.config.settings_table import INTEGER, NUMBER, PARALLEL, SWITCH, TEXT, TEXTS, key_of
from codeflash_parallel.queue.queue_settings import read_queue_settings
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Values of each kind: as text, as it is read, in TOML; and in TOML what is not of the kind.
VALUES = {
    TEXT: ("x", "x", '"x"', "3"),
    INTEGER: ("3", 3, "3", "3.5"),
    NUMBER: ("0.75", 0.75, "0.75", '"0.75"'),
    SWITCH: ("yes", True, "true", "1"),
    TEXTS: ("a 'b c'", ("a", "b c"), '["a", "b c"]', '"a"'),
    PARALLEL: ("3", 3, "3", "true"),
    SETTINGS["compare"].kind: ("pass-fail", ComparisonMode.PASS_FAIL, '"pass-fail"', '"both"'),
    SETTINGS["depth"].kind: ("full", "full", '"full"', "1"),
    SETTINGS["executor"].kind: ("queue", "queue", '"queue"', "1"),
}
#: Values of settings that do not take just any of their kind, as text and in TOML.
OWN = {
    "memory_limit": ("64", 64, "64"),
    "max_cpu_cost": ("1.75", 1.75, "1.75"),
    "ranking": ("smallest-diff", "smallest-diff", '"smallest-diff"'),
    "isolation": ("landlock", "landlock", '"landlock"'),
    "require_isolation": ("landlock", "landlock", '"landlock"'),
    "pass_env": ("TOKEN DB_*", ("TOKEN", "DB_*"), '["TOKEN", "DB_*"]'),
    "encoders": ("own.py::encode", ("own.py::encode",), '["own.py::encode"]'),
    "accept": ("tests/judge.py::accept", "tests/judge.py::accept", '"tests/judge.py::accept"'),
    "benchmark": ("speed.py::main", "speed.py::main", '"speed.py::main"'),
}


def example_of(name: str):
    """Return a value of a setting: as text, as it is read, and in TOML."""
    return OWN.get(name, VALUES[SETTINGS[name].kind][:3])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(folder: Path, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "pyproject.toml"
    path.write_text("\n".join(["[tool.codeflash-parallel]", *lines]) + "\n", encoding="utf-8")
    return path


def code_of(call, *arguments) -> str:
    with pytest.raises(UsageError) as caught:
        call(*arguments)
    return f"{caught.value.code}: {caught.value}"


def test_nothing_said_is_the_default(project: Path) -> None:
    configured = read_settings(project, {}, {})
    assert configured.settings == Settings()
    assert configured.sources == dict.fromkeys(SETTINGS, "default")


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_from_every_source(project: Path, name: str) -> None:
    text, expected, in_toml = example_of(name)
    path = write(project, f"{key_of(name)} = {in_toml}")
    from_file = read_settings(project, {}, {})
    from_environment = read_settings(project, {SETTINGS[name].variable: text}, {})
    there = {"executor": "ray"} if name in HOSTS else {}
    given = read_settings(project, {SETTINGS[name].variable: text}, {**there, name: expected})
    assert all(getattr(c.settings, name) == expected for c in (from_file, from_environment, given))
    assert from_file.sources[name] == str(path)
    assert from_environment.sources[name] == f"environment, {SETTINGS[name].variable}"
    assert given.sources[name] == f"command line, {SETTINGS[name].flag}"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_type_is_refused_by_name(project: Path, name: str) -> None:
    write(project, f"{key_of(name)} = {VALUES[SETTINGS[name].kind][3]}")
    said = code_of(read_settings, project, {}, {})
    assert said.startswith("BAD_SETTING")
    assert key_of(name) in said


def test_precedence_rises(project: Path) -> None:
    write(project, "seed = 1", "refine-top = 1", "refine-depth = 1")
    environment = {"CODEFLASH_PARALLEL_SEED": "2", "CODEFLASH_PARALLEL_REFINE_TOP": "2"}
    settings = read_settings(project, environment, {"seed": 3}).settings
    assert (settings.seed, settings.refine_top, settings.refine_depth) == (3, 2, 1)


def test_parallel_candidates_has_a_short_variable(project: Path) -> None:
    assert SETTINGS["parallel_candidates"].variable == "CODEFLASH_PARALLEL_CANDIDATES"
    settings = read_settings(project, {"CODEFLASH_PARALLEL_CANDIDATES": "auto"}, {}).settings
    assert settings.parallel_candidates == "auto"


@pytest.mark.parametrize(
    ("key", "meant"), [("paralel-candidates", "parallel-candidates"), ("refine_tops", "refine-top")]
)
def test_an_unknown_key_is_refused_with_a_suggestion(project: Path, key: str, meant: str) -> None:
    write(project, f"{key} = 1")
    said = code_of(read_settings, project, {}, {})
    assert said.startswith("UNKNOWN_SETTING")
    assert key in said
    assert meant in said


def test_a_key_like_no_other_is_refused(project: Path) -> None:
    write(project, "zzz = 1")
    assert "zzz" in code_of(read_settings, project, {}, {})


def test_dashes_and_underscores_are_one_key(project: Path) -> None:
    write(project, "refine_top = 7")
    assert read_settings(project, {}, {}).settings.refine_top == 7
    write(project, "refine_top = 7", "refine-top = 8")
    assert "twice" in code_of(read_settings, project, {}, {})


def test_a_misspelled_variable_is_refused_and_a_foreign_one_is_not(project: Path) -> None:
    said = code_of(read_settings, project, {"CODEFLASH_PARALLEL_CANDIDATE": "2"}, {})
    assert "CODEFLASH_PARALLEL_CANDIDATES" in said
    read_settings(project, {"CODEFLASH_PARALLEL_SLOT": "2", "CODEFLASH_PARALLEL_JOB": "x"}, {})


@pytest.mark.parametrize("text", ["", "three", "1.5"])
def test_a_variable_of_the_wrong_type_is_refused(project: Path, text: str) -> None:
    assert "CODEFLASH_PARALLEL_SEED" in code_of(read_settings, project, {"CODEFLASH_PARALLEL_SEED": text}, {})


def test_a_value_out_of_range_names_where_it_comes_from(project: Path) -> None:
    path = write(project, "timeout = -1")
    assert str(path) in code_of(read_settings, project, {}, {})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"accept": "judge.py"}, "accept must name a callable as path.py::name"),
        ({"accept": "judge.py::f", "compare": ComparisonMode.PASS_FAIL}, "accept judges values"),
        ({"encoders": ("own.py",)}, "path.py::name or module:name, not 'own.py'"),
        ({"encoders": ("own-er:f",)}, "module:name, not"),
        ({"encoders": ("own:",)}, "module:name, not"),
        ({"encoders": (":f",)}, "module:name, not"),
        ({"encoders": ("own::f",)}, "module:name, not"),
        ({"rtol": -1.0}, "rtol must be at least 0"),
        *(
            ({name: 2**34}, f"{name} must be at most 8589934592")
            for name in SETTINGS
            if name[-6:] == "_limit"
        ),
        ({"memory_limit": 15}, "memory_limit must be 0 or at least 16 MiB, not 15"),
        ({"benchmark": "speed.py"}, "path.py::name, not 'speed.py'"),
        ({"benchmark": "speed::main"}, "path.py::name"),
        ({"benchmark": "speed.py::a b"}, "path.py::name"),
        ({"benchmark": "speed.py::main", "benchmark_command": "true"}, "cannot both be given"),
        ({"ranking": "quickest"}, "fastest, smallest-diff or module:name, not 'quickest'"),
        ({"depth": "deep"}, "depth must be quick or full, not 'deep'"),
        ({"ranking": ":name"}, "module:name"),
        ({"max_cpu_cost": 0.5}, "at least 1"),
        ({"time_budget": -1.0}, "at least 0"),
        ({"time_budget": float("inf")}, "finite number"),
        ({"max_regression": float("nan")}, "finite number"),
        ({"confidence": float("nan")}, "finite number"),
    ],
)
def test_what_a_race_cannot_be_told(project: Path, values: dict[str, object], said: str) -> None:
    assert said in code_of(read_settings, project, {}, values)


def test_what_is_compared_may_be_given_as_plain_text() -> None:
    assert Settings(compare="values").compare is ComparisonMode.VALUES  # type: ignore[arg-type]
    assert Settings(compare="pass-fail").compare is ComparisonMode.PASS_FAIL  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="compare must be values or pass-fail, not 'value'"):
        Settings(compare="value")  # type: ignore[arg-type]


def test_a_value_of_any_length_is_told_in_one_line(project: Path) -> None:
    said = code_of(read_settings, project, {}, {"depth": "f" * 100_000})
    assert "depth must be quick or full, not 'ffff" in said
    assert len(said) < 400


@pytest.mark.parametrize("ranking", ["fastest", "smallest-diff", "package.module:name", "tools/rank.py:name"])
def test_orders_of_equals(project: Path, ranking: str) -> None:
    assert read_settings(project, {}, {"ranking": ranking}).settings.ranking == ranking


def test_the_nearest_table_counts_up_to_the_repository_root(project: Path) -> None:
    write(project, "seed = 1")
    inner = project / "packages" / "one"
    inner.mkdir(parents=True)
    (inner / "pyproject.toml").write_text("[project]\nname = 'one'\n", encoding="utf-8")
    assert read_settings(inner, {}, {}).settings.seed == 1
    write(inner, "seed = 2")
    assert read_settings(inner, {}, {}).settings.seed == 2


def test_what_lies_above_the_repository_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, "seed = 1")
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    assert read_settings(tmp_path / "repository", {}, {}).settings.seed == 0


@pytest.mark.parametrize("content", [b"[tool", b"\xff", b"[tool]\ncodeflash-parallel = 3\n"])
def test_a_bad_file_is_refused(project: Path, content: bytes) -> None:
    (project / "pyproject.toml").write_bytes(content)
    assert code_of(read_settings, project, {}, {}).startswith("BAD_CONFIG")


def write_user_file(folder: Path, *lines: str) -> Path:
    path = folder / "codeflash-parallel" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "HOME"])
def test_the_user_s_file_is_read_below_the_project_and_above_the_defaults(project: Path, name: str) -> None:
    folder = project / "home" / ("" if name == "XDG_CONFIG_HOME" else ".config")
    own = write_user_file(folder, "seed = 1", "refine-top = 1", "refine-depth = 1")
    theirs = write(project, "seed = 2", "refine-top = 2")
    environment = {name: str(project / "home"), "CODEFLASH_PARALLEL_SEED": "3"}
    found = read_settings(project, environment, {})
    assert (found.settings.seed, found.settings.refine_top, found.settings.refine_depth) == (3, 2, 1)
    assert found.sources["seed"] == "environment, CODEFLASH_PARALLEL_SEED"
    assert found.sources["refine_top"] == str(theirs)
    assert found.sources["refine_depth"] == str(own)
    assert found.sources["timeout"] == "default"


def test_the_user_s_file_may_hold_settings_of_the_queue(project: Path, user: dict[str, str]) -> None:
    path = write_user_file(Path(user["HOME"], ".config"), "seed = 1", "[queue]", 'strategy = "fifo"')
    assert read_settings(project, user, {}).settings.seed == 1
    queue = read_queue_settings(project, user, {})
    assert (queue.settings.strategy, queue.sources["strategy"]) == ("fifo", str(path))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["sed = 1"], "UNKNOWN_SETTING: {path}: unknown key 'sed'. Did you mean 'seed'?"),
        (["seed = 'x'"], "BAD_SETTING: {path}: seed must be a whole number, not 'x'."),
        (["[tool.codeflash-parallel]", "seed = 1"], "UNKNOWN_SETTING: {path}: unknown key 'tool'."),
        (["queue = 3"], "BAD_CONFIG: {path}: queue must be a table."),
        (["seed ="], "BAD_CONFIG: {path} cannot be read"),
    ],
)
def test_a_wrong_user_s_file_is_refused(
    project: Path, user: dict[str, str], lines: list[str], said: str
) -> None:
    path = write_user_file(Path(user["HOME"], ".config"), *lines)
    read = read_queue_settings if lines == ["queue = 3"] else read_settings
    assert code_of(read, project, user, {}).startswith(said.format(path=path))


@pytest.mark.parametrize("environment", [{}, {"XDG_CONFIG_HOME": "relative"}, {"HOME": ""}])
def test_there_is_no_user_s_file_without_a_home(environment: dict[str, str]) -> None:
    assert user_file(environment) is None


def test_a_file_that_changes_is_read_again(project: Path) -> None:
    write(project, "seed = 1")
    assert read_settings(project, {}, {}).settings.seed == 1
    path = write(project, "seed = 2")
    os.utime(path, ns=(1, 1))
    assert read_settings(project, {}, {}).settings.seed == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_home_of_another_user_has_no_file_for_this_one(project: Path, user: dict[str, str]) -> None:
    folder = write_user_file(Path(user["HOME"], ".config"), "seed = 1").parent
    folder.parent.chmod(0)
    try:
        assert read_settings(project, user, {}).sources["seed"] == "default"
    finally:
        folder.parent.chmod(0o700)


def test_the_cache_is_where_the_setting_says_else_in_the_user_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root(Settings()) == tmp_path / "codeflash-parallel"
    assert cache_root(Settings(cache_dir=f"{tmp_path}/a/../b")) == tmp_path / "b"
    assert queue_folder(Settings(cache_dir=str(tmp_path))) == tmp_path / "queue"
    assert queue_folder(Settings(queue_dir=str(tmp_path / "q"))) == tmp_path / "q"


def test_without_a_home_a_cache_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(EnvironmentFault) as caught:
        cache_root(Settings())
    assert caught.value.code == "NO_CACHE"


def test_a_submitter_is_the_given_one_else_the_variable_s_else_the_user() -> None:
    assert submitter_of("ada", {SUBMITTER: "bob"}) == "ada"
    assert submitter_of("", {SUBMITTER: "bob"}) == "bob"
    assert submitter_of("", {})
    assert (run_of("", {RUN_OF: "r"}), run_of("", {})) == ("r", "")
    with pytest.raises(UsageError, match="1 to 64 printable characters"):
        submitter_of("x" * 65, {})


@pytest.mark.parametrize("name", ["cluster", "cluster_jobs", "prepare"])
def test_an_option_of_other_hosts_is_refused_where_there_are_none(project: Path, name: str) -> None:
    value = {"cluster": "local", "cluster_jobs": 2, "prepare": "make env"}[name]
    (project / "pyproject.toml").write_text(
        f"[tool.codeflash-parallel]\n{name.replace('_', '-')} = {value!r}\n"
    )

    said = code_of(read_settings, project, {}, {name: value})

    assert f"--{name.replace('_', '-')} is for --executor ray or slurm, and the executor is local." in said
    assert getattr(read_settings(project, {}, {}).settings, name) == value
    assert getattr(read_settings(project, {}, {name: value, "executor": "slurm"}).settings, name) == value
