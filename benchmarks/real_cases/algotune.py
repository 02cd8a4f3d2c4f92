"""Cases of AlgoTune: a task's reference as a small project, and the solvers of many models as its candidates.

Nothing of AlgoTune is kept here: tasks and solvers are read from its repository when a case is built. The
texts below are ours.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from typing import Any

#: What a solver may import beside the standard library.
LIGHT = frozenset({"numpy", "scipy", "networkx"})

#: Read a file, or list a folder, of AlgoTune's repository.
Read = Callable[[str], str]

_BASE_CLASS = '''"""What a task of AlgoTune needs of its base class here."""


class Task:
    def __init__(self, **kwargs):
        pass


def register_task(name):
    return lambda task: task
'''

_CHECKS = '''"""Say whether a result is as right as the reference's."""

from AlgoTuneTasks.{task}.{task} import {name}

TASK = {name}()


def accept(arguments, expected, actual):
    return bool(TASK.is_solution(arguments["problem"], actual))
'''

_TESTS = '''"""Solve problems of several sizes. Which solutions are right is left to the judge."""

import pytest
from checks import TASK
from solver import solve_task

PROBLEMS = [(size, seed) for size in {sizes} for seed in range({seeds})]


@pytest.mark.parametrize(("size", "seed"), PROBLEMS)
def test_a_problem_has_a_solution(size, seed):
    assert solve_task(TASK.generate_problem(size, random_seed=seed)) is not None
'''

_ENTRY = '''

_{name} = {name}()


def solve_task(problem):
    """Return a solution of the problem."""
    return _{name}.solve(problem)
'''


def project(facts: Mapping[str, Any], read: Read) -> dict[str, str]:
    """Return the texts of the project that a case's tool runs on, by path."""
    task = facts["task"]
    path = f"AlgoTuneTasks/{task}/{task}.py"
    text = read(path)
    return {
        path: text,
        "AlgoTuneTasks/base.py": _BASE_CLASS,
        "checks.py": _CHECKS.format(task=task, name=_task_class(ast.parse(text)).name),
        "test_solver.py": _TESTS.format(sizes=facts["sizes"], seeds=facts["seeds"]),
        "solver.py": reference(text),
    }


def solvers(facts: Mapping[str, Any], read: Read) -> dict[str, dict[str, str]]:
    """Return what each candidate of a case changes: the text of the solver's module."""
    task = facts["task"]
    return {
        each["name"]: {"solver.py": solver(read(f"results/{each['model']}/{task}/solver.py"))}
        for each in facts["candidates"]
    }


def solver(text: str) -> str:
    """Return a model's solver with the function that the tests call."""
    return text.rstrip() + "\n" + _ENTRY.format(name="Solver")


def is_light(text: str) -> bool:
    """Say whether a solver imports only what every case has, even where it could do without."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except SyntaxError:
        return False
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "." for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names} <= LIGHT | sys.stdlib_module_names


def reference(text: str) -> str:
    """Return a task's module with what `solve` needs only, and the function that the tests call."""
    tree = ast.parse(text)
    task = _task_class(tree)
    methods = {node.name: node for node in task.body if isinstance(node, ast.FunctionDef)}
    wanted = _reached(methods, ["__init__", "solve"])
    task.body = [node for node in task.body if not isinstance(node, ast.FunctionDef) or node.name in wanted]
    task.bases, task.decorator_list = [], []
    tree.body = [node for node in tree.body if not _is_of_algotune(node)]
    return ast.unparse(tree) + "\n" + _ENTRY.format(name=task.name)


def _task_class(tree: ast.Module) -> ast.ClassDef:
    """Return the class that is registered as a task."""
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.decorator_list)


def _reached(methods: Mapping[str, ast.FunctionDef], start: list[str]) -> set[str]:
    reached: set[str] = set()
    left = start
    while left:
        name = left.pop()
        reached.add(name)
        used = {node.attr for node in ast.walk(methods[name]) if isinstance(node, ast.Attribute)}
        left += [each for each in used if each in methods and each not in reached]
    return reached


def _is_of_algotune(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("AlgoTune")
