"""A stand-in for codeflash's service, and a small project: prepared candidates and tests, no network.

The service is an HTTP proxy on a free port of the loopback: codeflash is told to use a local service
(`CODEFLASH_AIS_SERVER`, `CODEFLASH_CFAPI_SERVER`), and every request of it goes through the proxy, which
answers those of the service and refuses all others. So nothing leaves the machine, whatever is asked for.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODULE = "shop/words.py"
FUNCTION = "repeated"

#: The function that is optimized: quadratic, since it looks for each word in those before it.
ORIGINAL = '''"""Words that customers say."""


def repeated(words):
    """Return the words that occur again, each once, in the order in which the repetition is met."""
    found = []
    for place, word in enumerate(words):
        if word in words[:place] and word not in found:
            found.append(word)
    return found
'''

TESTS = """import pytest

from shop.words import repeated


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["a"], []),
        (["a", "b", "a"], ["a"]),
        (["a", "b", "b", "a"], ["b", "a"]),
        (["a", "a", "a"], ["a"]),
        (["x", "y", "y", "x", "y", "z"], ["y", "x"]),
    ],
)
def test_repeated(words, expected):
    assert repeated(words) == expected


def test_many_words():
    words = [f"w{number * 7919 % 600}" for number in range(1200)]
    assert repeated(words) == [f"w{number * 7919 % 600}" for number in range(600)]
"""

#: What the service "generates", a file each.
GENERATED = (
    """from shop.words import repeated


def test_interleaved_words():
    words = [f"k{number % 450}" for number in range(700)]
    codeflash_output = repeated(words)


def test_mixed_types():
    codeflash_output = repeated([1, "1", 1, "1", 2.0, 2])
""",
    """from shop.words import repeated


def test_no_repetition():
    words = [str(number) for number in range(500)]
    codeflash_output = repeated(words)


def test_words_stay_as_they_are():
    words = ["b", "a", "b", "c", "a"]
    codeflash_output = repeated(words)
    assert words == ["b", "a", "b", "c", "a"]
""",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A candidate.

    Attributes:
        is_right: it gives what the original gives.
    """

    name: str
    code: str
    is_right: bool
    explanation: str = "Faster."


def _prepared(name: str, body: str, head: str = "", *, is_right: bool) -> Prepared:
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return Prepared(name=name, code=f"{head}def repeated(words):\n{indented}", is_right=is_right)


#: Eight candidates as models write them: three are wrong, one is truly fastest.
CANDIDATES = (
    _prepared(
        "counter",  # the order of first meetings, not of repetitions
        "return [word for word, count in Counter(words).items() if count > 1]",
        "from collections import Counter\n\n\n",
        is_right=False,
    ),
    _prepared(
        "set-and-list",
        "seen = set()\nfound = []\nfor word in words:\n    if word in seen:\n        if word not in found:\n"
        "            found.append(word)\n    else:\n        seen.add(word)\nreturn found",
        is_right=True,
    ),
    _prepared(
        "sorted",
        "ordered = sorted(words)\n"
        "return list(dict.fromkeys(a for a, b in zip(ordered, ordered[1:]) if a == b))",
        is_right=False,
    ),
    _prepared(
        "no-slice",
        "found = []\nfor place, word in enumerate(words):\n"
        "    if words.index(word) < place and word not in found:\n        found.append(word)\nreturn found",
        is_right=True,
    ),
    _prepared(
        "two-sets",
        "seen = set()\nagain = {}\nadd = seen.add\nfor word in words:\n    if word in seen:\n"
        "        again[word] = None\n    else:\n        add(word)\nreturn list(again)",
        is_right=True,
    ),
    _prepared(
        "every-time",  # a third meeting is one too many
        "seen = set()\nfound = []\nfor word in words:\n    if word in seen:\n        found.append(word)\n"
        "    seen.add(word)\nreturn found",
        is_right=False,
    ),
    _prepared(
        "local-names",
        "found = []\nappend = found.append\nfor place, word in enumerate(words):\n"
        "    if word in words[:place] and word not in found:\n        append(word)\nreturn found",
        is_right=True,
    ),
    _prepared(
        "dict-of-counts",
        "counts = {}\nfound = []\nfor word in words:\n    counts[word] = counts.get(word, 0) + 1\n"
        "    if counts[word] == 2:\n        found.append(word)\nreturn found",
        is_right=True,
    ),
)
#: Right on every call, and fast on those that come again only: whoever times the same call again and again
#: times its memory.
MEMO = Prepared(
    name="memo",
    code="""from functools import lru_cache


@lru_cache(maxsize=None)
def _repeated(words):
    counts = {}
    for word in words:
        counts.setdefault(word, []).append(len(counts))
    again, met = [], set()
    for word in words:
        if word in met and word not in again:
            again.append(word)
        met.add(word)
    return tuple(again)


def repeated(words):
    return list(_repeated(tuple(words)))
""",
    is_right=True,
)

_PYPROJECT = """[project]
name = "shop"
version = "1.0"

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]

[tool.codeflash]
module-root = "shop"
tests-root = "tests"
test-framework = "pytest"
formatter-cmds = ["disabled"]
disable-telemetry = true
"""


def make_project(root: Path) -> Path:
    """Make the project, a git repository."""
    files = {
        "pyproject.toml": _PYPROJECT,
        ".gitignore": "__pycache__/\n.pytest_cache/\n.coverage\n",
        "shop/__init__.py": "",
        MODULE: ORIGINAL,
        "tests/__init__.py": "",
        "tests/test_words.py": TESTS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    owner = ("-c", "user.name=Shop", "-c", "user.email=shop@localhost")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*owner, "commit", "-qm", "Shop")):
        subprocess.run(["git", "-C", str(root), *words], check=True, env=_plain(os.environ))
    return root


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without what an outer git, pytest or proxy has set."""
    outer = ("GIT_", "PYTEST_", "no_proxy", "NO_PROXY")
    return {name: value for name, value in environment.items() if not name.startswith(outer)}


@dataclass(slots=True)
class Service:
    """The running service.

    Attributes:
        candidates: of the first request; the second one, for which the original was profiled by line, gets
            `later`.
        asked: the paths that were asked for.
        moments: when, on the monotonic clock.
    """

    candidates: Sequence[Prepared]
    later: Sequence[Prepared] = ()
    generated: Sequence[str] = GENERATED
    asked: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    port: int = 0

    def environment(self, home: Path) -> dict[str, str]:
        """Return the environment of a codeflash that knows no other service.

        Args:
            home: a folder for this alone: codeflash writes the key of its service to the shell's file there,
                and leaves temporary files.
        """
        proxy = f"http://127.0.0.1:{self.port}"
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return {
            **_plain(os.environ),
            **dict.fromkeys(names, proxy),
            "HOME": str(home),
            "TMPDIR": str(home),
            # codeflash tells calls apart by the order of tests.
            "PYTEST_ADDOPTS": "-p no:randomly",
            "CODEFLASH_API_KEY": "cf-of-nobody",
            "CODEFLASH_AIS_SERVER": "local",
            "CODEFLASH_CFAPI_SERVER": "local",
        }

    def answer(self, path: str, asked: Any) -> Any:
        """Return the answer to a request, `None`: there is none."""
        self.asked.append(path)
        self.moments.append(time.monotonic())
        answers: dict[str, Callable[[], Any]] = {
            "/ai/optimize": lambda: {"optimizations": [_optimization(one) for one in self.candidates]},
            "/ai/optimize-line-profiler": lambda: {
                "optimizations": [_optimization(one) for one in self.later]
            },
            "/ai/testgen": lambda: _tests(self.generated[asked["test_index"] % len(self.generated)], asked),
            "/ai/refinement": lambda: {"refinements": []},
            # The best that its service can say to it: the order of the speedups that it has measured.
            "/ai/rank": lambda: {"ranking": _ranking(asked["speedups"])},
            "/ai/explain": lambda: {"explanation": asked["original_explanation"]},
            "/ai/optimization_review": lambda: {"review": "", "review_explanation": ""},
            "/ai/log_features": dict,
            "/cfapi/mark-as-success": dict,
            "/cfapi/cli-get-user": lambda: {"userId": "nobody", "min_version": "0.0.0"},
        }
        answer = answers.get(path.partition("?")[0])
        return answer() if answer else None


def _ranking(speedups: Sequence[float]) -> list[int]:
    return sorted(range(len(speedups)), key=lambda place: -speedups[place])


def _optimization(one: Prepared) -> dict[str, Any]:
    block = f"```python:{MODULE}\n{one.code}```"
    return {"source_code": block, "explanation": one.explanation, "optimization_id": one.name}


def _tests(source: str, asked: Mapping[str, Any]) -> dict[str, str]:
    """Return tests as the service does: as they are, and with what notes values and times of calls."""
    from codeflash.code_utils.instrument_existing_tests import inject_profiling_into_existing_test
    from codeflash.models.function_types import FunctionToOptimize
    from codeflash.models.models import CodePosition, TestingMode

    function = FunctionToOptimize(function_name=FUNCTION, file_path=Path(MODULE))
    calls = [
        CodePosition(line_no=node.lineno, col_no=node.col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == FUNCTION
    ]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, *asked["test_module_path"].split(".")).with_suffix(".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(source)
        behavior, timed = (
            inject_profiling_into_existing_test(place, calls, function, Path(folder), mode)[1] or ""
            for mode in (TestingMode.BEHAVIOR, TestingMode.PERFORMANCE)
        )
    return {
        "generated_tests": source,
        "instrumented_behavior_tests": behavior,
        "instrumented_perf_tests": timed,
        "raw_generated_tests": source,
    }


@contextmanager
def serving(service: Service) -> Iterator[Service]:
    """Serve while the block lasts; `service.port` is set."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            host, _, path = self.path.removeprefix("http://").partition("/")
            known = host.startswith("localhost:")
            answer = service.answer(f"/{path}", json.loads(body or b"null")) if known else None
            data = json.dumps(
                answer if answer is not None else {"error": "There is no such thing here."}
            ).encode()
            self.send_response(200 if answer is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer  # noqa: N815 - the names of the standard library

        def do_CONNECT(self) -> None:
            self.send_error(403, "Nothing leaves this machine")

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield service
        finally:
            server.shutdown()
            thread.join()
