"""Expectations of code about its parameters, whatever tests give: they may be empty, they may be called."""

import ast
import functools
import inspect
import textwrap
import types

_CONTAINERS = (list, tuple, set, frozenset, dict)


def answer(*args, **kwargs):
    """Stand in for a callable: give the last argument back if it is a container, and a text for all else."""
    given = (*args, *kwargs.values())
    return given[-1] if given and isinstance(given[-1], _CONTAINERS) else "x"


#: Callables that take any arguments; what the second one returns is false.
ANSWERS = (answer, "".format)


@functools.cache
def parsed(function):
    """Return the tree of a function and the name of its first parameter; (None, "") where there is none."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        return tree, tree.args.args[0].arg
    except (OSError, TypeError, ValueError, SyntaxError, AttributeError, IndexError):  # made at run time
        return None, ""


def empties(function):
    """Return the names of which a function asks whether they are true, and attributes of its first parameter.

    Whoever wrote that expects them to be empty now and then. Attributes are named as `.name`.
    """
    return {
        getattr(part, "id", None) or "." + part.attr
        for node, own in _nodes(function)
        for part in _truths(node)
        if isinstance(part, ast.Name) or (isinstance(part, ast.Attribute) and _is_named(part.value, own))
    }


def callees(function):
    """Return the names that a function calls."""
    nodes = (node for node, _ in _nodes(function) if isinstance(node, ast.Call))
    return {node.func.id for node in nodes if isinstance(node.func, ast.Name)}


def _nodes(function):
    """Yield the nodes of a function's source, each with the name of its first parameter."""
    tree, own = parsed(function) if isinstance(function, types.FunctionType) else (None, "")
    for node in ast.walk(tree) if tree is not None else ():
        yield node, own


def _is_named(node, name):
    return isinstance(node, ast.Name) and node.id == name


def _truths(node):
    """Return the expressions of which a node asks whether they are true."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values
    return [node.operand] if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else []
