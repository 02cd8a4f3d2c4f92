"""Differences that ask for a review and reject nobody, and those beside them that still do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from check_lab import CheckLab, SomeServers, open_check_lab

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.warm.slot_servers import ServerVerification, verify

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

#: Bodies of the functions below.
BODIES = {
    "marked": '    os.environ["LAST"] = word\n    return word.upper()\n',
    "entered": "    os.chdir(os.sep)\n    return len(word)\n",
    "plain": "    return word.lower()\n",
    "shown": "    print(word)\n    return len(word)\n",
}

FILES = {
    "shop/sums.py": "import os\nimport random\n\n\n"
    + "\n\n".join(f"def {name}(word):\n{body}" for name, body in BODIES.items()),
    "tests/test_sums.py": """
import pytest
from shop.sums import entered, marked, plain, shown

@pytest.mark.parametrize("word", ["one", "Two"])
def test_words(word, monkeypatch, tmp_path):
    monkeypatch.setenv("LAST", "")
    monkeypatch.chdir(tmp_path)
    assert (marked(word), plain(word)) == (word.upper(), word.lower())
    assert entered(word) == shown(word) == 3
""",
}

#: A function, another body of it, and what its hint says.
HINTED = {
    "state of random": ("plain", "    random.random()\n    return word.lower()\n", "random generator"),
    "variables": (
        "plain",
        '    os.environ["FAST"] = "1"\n    return word.lower()\n',
        "environment variables",
    ),
    "directory": ("plain", "    os.chdir(os.sep)\n    return word.lower()\n", "current directory"),
}

#: Effects that are what a function is called for: a candidate that drops them is wrong.
REJECTED = {
    "dropped variable": ("marked", "    return word.upper()\n"),
    "another value of it": ("marked", '    os.environ["LAST"] = "x"\n    return word.upper()\n'),
    "dropped directory": ("entered", "    return len(word)\n"),
    "dropped output": ("shown", "    return len(word)\n"),
    "output and variables": ("shown", '    os.environ["FAST"] = "1"\n    return len(word)\n'),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> Any:
    targets = tuple(f"shop/sums.py::{name}" for name in BODIES)
    async with open_check_lab(tmp_path_factory.mktemp("hints"), files=FILES, targets=targets) as lab:
        assert await lab.start("replay", ForkPoint.IMPORTED) == ""
        yield lab


async def tried(lab: CheckLab, name: str, body: str, **plan: Any) -> CheckOutcome:
    text = FILES["shop/sums.py"]
    assert BODIES[name] in text
    candidate = lab.candidate(shop__sums=text.replace(BODIES[name], body))
    return await lab.check(candidate, SomeServers(lab.servers), **plan)


async def test_state_beside_arguments_and_results_is_a_hint(lab: CheckLab) -> None:
    for title, (name, body, words) in HINTED.items():
        outcome = await tried(lab, name, body)
        assert (outcome.code, outcome.values.differing) == (Code.OK, 0), (title, outcome.reason)
        assert len(outcome.hints) == 1, (title, outcome.hints)
        assert words in outcome.hints[0], title
        strict = await tried(lab, name, body, rules=ComparisonRules(strict=True))
        assert (strict.code, strict.hints) == (Code.STATE_DIFFERS, ()), title


async def test_dropped_effects_still_reject(lab: CheckLab) -> None:
    for title, (name, body) in REJECTED.items():
        outcome = await tried(lab, name, body)
        assert (outcome.code, outcome.hints) == (Code.STATE_DIFFERS, ()), (title, outcome.reason)


async def test_what_the_baseline_does_not_keep_is_not_compared(lab: CheckLab) -> None:
    name, body, _ = HINTED["state of random"]
    for strict in (False, True):
        rules = ComparisonRules(strict=strict, unkept=frozenset({"random"}))
        outcome = await tried(lab, name, body, rules=rules)
        assert (outcome.code, outcome.hints) == (Code.OK, ()), outcome.reason


#: Its random state depends on what its process has done before, as that of a project with a cache does.
UNKEPT = {
    "shop/sums.py": """
import os
import random

HOME = os.getpid()

def total(values):
    if os.getpid() != HOME:
        random.random()
    return sum(values)
"""
}


async def test_a_fork_tells_what_the_baseline_does_not_keep(tmp_path: Path) -> None:
    async with open_check_lab(tmp_path, files=UNKEPT) as lab:
        for point, unkept in ((ForkPoint.IMPORTED, set()), (ForkPoint.COLLECTED, {"random"})):
            assert await lab.start("replay", point) == ""
            server = lab.servers["replay", point]
            found = await verify(lab.plan(), lab.workspace, "replay", server)
            assert found == ServerVerification("", frozenset(unkept))
