"""The bench that finds mutants which a project's own tests do not kill."""

import json
import subprocess
import sys
from pathlib import Path

SURVIVING = Path(__file__).parents[2] / "benchmarks" / "surviving.py"
MODULE = """\
class Cart:
    def total(self, prices):
        return sum(prices)

def cut(text):
    return text[:10]

def never_called(text):
    return text
"""
TESTS = """\
from shop import Cart, cut

def test_total():
    assert Cart().total([1, 2]) == 3

def test_cut():
    assert cut("ab") == "ab"
"""


def test_mutants_that_the_tests_do_not_notice_survive(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(MODULE)
    (tmp_path / "test_shop.py").write_text(TESTS)
    mutants = {
        "killed": ("Cart.total", MODULE.replace("sum(prices)", "max(prices)")),
        "endless": ("cut", MODULE.replace("    return text[:10]", "    while text: pass")),
        "greedy": ("cut", MODULE.replace("text[:10]", "(text * (4 << 30))[:2]")),
        "survivor": ("cut", MODULE.replace("[:10]", "[:2]")),
        "not called": ("never_called", MODULE.replace("return text\n", "return None\n")),
    }
    job = tmp_path / "job.json"
    about = {"file": str(tmp_path / "shop.py"), "imports": str(tmp_path), "mutants": mutants, "seconds": 60}
    job.write_text(json.dumps(about))
    command = [sys.executable, str(SURVIVING), str(job), "-q", "-p", "no:cacheprovider", "test_shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(job.read_text())
    assert found == {"called": ["Cart.total", "cut"], "survivors": ["survivor"]}, done.stdout
