"""A small package that is called codeflash: what we build on of the real one's interface, and nothing else.

Its own way of evaluation takes the first candidate that can be written into the file. Candidates are the
arguments after file and function: files of texts. With `wait` alone it prints its process id and waits; with
other arguments it prints them and exits with 5.
"""

from __future__ import annotations

from pathlib import Path

_MAIN = """
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from codeflash.languages.python.support import PythonSupport
from codeflash.models.models import CandidateEvaluationContext

def main():
    words = sys.argv[1:]
    if words == ["wait"]:
        print(os.getpid(), flush=True)
        time.sleep(60)
    if not words[0].endswith(".py"):
        print("codeflash's arguments:", words)
        sys.exit(5)
    optimizer = PythonSupport().function_optimizer_class(Path(words[0]).resolve(), words[1])
    candidates = [SimpleNamespace(optimization_id=Path(word).stem, source_code=Path(word).read_text(),
                                  explanation="") for word in words[2:]]
    invocation = SimpleNamespace(file_name=Path("test_of_model.py"), did_pass=False, id=SimpleNamespace(
        test_class_name=None, test_function_name="test_wrong[1]"))
    baseline = SimpleNamespace(runtime=1000, behavior_test_results=[invocation])
    best = optimizer.determine_best_candidate(
        candidates=candidates, code_context=None, original_code_baseline=baseline, original_helper_code={},
        file_path_to_helper_classes={}, exp_type="EXP0", function_references="")
    print("best:", best.candidate.optimization_id if best else None)
"""

_SUPPORT = """
class PythonSupport:
    @property
    def function_optimizer_class(self):
        from codeflash.languages.python.function_optimizer import PythonFunctionOptimizer
        return PythonFunctionOptimizer
"""

_OPTIMIZER = """
from pathlib import Path
from types import SimpleNamespace
from codeflash.models.models import CandidateEvaluationContext

MODEL_TESTS = "from shop.sums import total\\n\\ndef test_of_model():\\n    total([1, 2, 3, 4])\\n\\n" \\
    "def test_wrong():\\n    assert total([1]) == 2\\n"

class PythonFunctionOptimizer:
    def __init__(self, path, name):
        self.project_root = Path.cwd()
        self.function_to_optimize = SimpleNamespace(file_path=path, qualified_name=name)
        self.function_to_optimize_source_code = path.read_text()
        def tests(original, name, source=None):
            return SimpleNamespace(original_file_path=original, original_source=source,
                                   instrumented_behavior_file_path=Path(name))
        self.test_files = [tests(Path("tests/test_sums.py").resolve(), "tests/test_sums__x.py"),
                           tests(None, "tests/test_of_model.py", MODEL_TESTS)]

    def determine_best_candidate(self, *, candidates, code_context, original_code_baseline, original_helper_code,
                                 file_path_to_helper_classes, exp_type, function_references):
        context = CandidateEvaluationContext()
        for number, candidate in enumerate(candidates, start=1):
            try:
                self.process_single_candidate(
                    candidate_node=SimpleNamespace(candidate=candidate), candidate_index=number,
                    total_candidates=len(candidates), code_context=code_context,
                    original_code_baseline=original_code_baseline, original_helper_code=original_helper_code,
                    file_path_to_helper_classes=file_path_to_helper_classes, eval_ctx=context,
                    exp_type=exp_type, function_references=function_references, normalized_original="")
            finally:
                self.write_code_and_helpers(self.function_to_optimize_source_code, {},
                                            self.function_to_optimize.file_path)
        best = self.select_best_optimization(
            eval_ctx=context, code_context=code_context, original_code_baseline=original_code_baseline,
            ai_service_client=None, exp_type=exp_type, function_references=function_references)
        print("entries:", sorted(context.entries.items()))
        return best

    def process_single_candidate(self, candidate_node, candidate_index, total_candidates, code_context,
                                 original_code_baseline, original_helper_code, file_path_to_helper_classes,
                                 eval_ctx, exp_type, function_references, normalized_original,
                                 cached_normalized_code=None):
        print("one by one:", candidate_node.candidate.optimization_id)
        eval_ctx.found.append(SimpleNamespace(candidate=candidate_node.candidate))

    def select_best_optimization(self, eval_ctx, code_context, original_code_baseline, ai_service_client,
                                 exp_type, function_references):
        return eval_ctx.found[0]

    def repair_if_possible(self, candidate, diffs, eval_ctx, code_context, test_results_count, exp_type):
        print("a repair is asked for")

    def run_optimized_candidate(self, *, optimization_candidate_index, baseline_results, original_helper_code,
                                file_path_to_helper_classes, eval_ctx, code_context, candidate, exp_type):
        self.repair_if_possible(candidate, [], eval_ctx, code_context, 0, exp_type)
        is_refused = "refused" in self.function_to_optimize.file_path.read_text()
        return SimpleNamespace(is_successful=lambda: not is_refused,
                               unwrap=lambda: SimpleNamespace(best_test_runtime=250))

    def handle_successful_candidate(self, candidate, candidate_result, code_context, original_code_baseline,
                                    original_helper_code, candidate_index, eval_ctx):
        return SimpleNamespace(candidate=candidate), None

    def replace_function_and_helpers_with_optimized_code(self, code_context, optimized_code,
                                                         original_helper_code):
        compile(optimized_code, "candidate", "exec")
        self.function_to_optimize.file_path.write_text(optimized_code)
        return True

    @staticmethod
    def write_code_and_helpers(original_code, original_helper_code, path):
        path.write_text(original_code)
"""

_MODELS = """
class CandidateEvaluationContext:
    def __init__(self):
        self.entries, self.found = {}, []

    def record_failed_candidate(self, optimization_id):
        self.entries[optimization_id] = None

    def record_successful_candidate(self, optimization_id, runtime, speedup):
        self.entries[optimization_id] = speedup
"""


def install(folder: Path, version: str) -> Path:
    """Make the package in a folder for `PYTHONPATH`, with the metadata of an installed one."""
    texts = {
        f"codeflash-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: codeflash\nVersion: {version}\n",
        "codeflash/__init__.py": "",
        "codeflash/main.py": _MAIN,
        "codeflash/languages/__init__.py": "",
        "codeflash/languages/python/__init__.py": "",
        "codeflash/languages/python/support.py": _SUPPORT,
        "codeflash/languages/python/function_optimizer.py": _OPTIMIZER,
        "codeflash/models/__init__.py": "",
        "codeflash/models/models.py": _MODELS,
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder
