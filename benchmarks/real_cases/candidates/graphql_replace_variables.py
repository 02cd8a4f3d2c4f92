"""Candidates of `graphql_replace_variables`: variables in literals replaced by their values."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body, substitute

PATH = "src/graphql/utilities/replace_variables.py"
NAME = "replace_variables"
IMPORTED = "    NullValueNode,\n"
VISIT = 'return cast("ConstValueNode", visit(value_node, visitor))'
VISITOR = "visitor = _ReplaceVariablesVisitor(variable_values, fragment_variable_values)\n"
BETWEEN = "\n\nclass _ReplaceVariablesVisitor"

HAS_VARIABLE = '''

def _has_variable(node: ValueNode) -> bool:
    """Return whether there is a variable in a value."""
    if isinstance(node, ListValueNode):
        return any(map(_has_variable, node.values))
    if isinstance(node, ObjectValueNode):
        return any(_has_variable(field.value) for field in node.fields)
    return isinstance(node, VariableNode)
'''

CONSTANT_FIRST = f"""\
    if not _has_variable(value_node):
        return cast("ConstValueNode", value_node)
    {VISITOR}    {VISIT}
"""

REPLACED = '''

def _replaced(node: ValueNode, visitor: _ReplaceVariablesVisitor) -> ValueNode:
    """Return a value with its variables replaced, the same one where there are none."""
    if isinstance(node, VariableNode):
        new = visitor.enter_variable(node)
        return node if new is None else new
    if isinstance(node, ListValueNode):
        values = tuple([_replaced(value, visitor) for value in node.values])
        same = all(new is old for new, old in zip(values, node.values, strict=True))
        return node if same else node.__class__(values=values, loc=node.loc)
    if isinstance(node, ObjectValueNode):
        node = visitor.enter_object_value(node) or node
        fields = tuple([_replaced_field(field, visitor) for field in node.fields])
        same = all(new is old for new, old in zip(fields, node.fields, strict=True))
        return node if same else node.__class__(fields=fields, loc=node.loc)
    return node


def _replaced_field(field: ObjectFieldNode, visitor: _ReplaceVariablesVisitor) -> ObjectFieldNode:
    """Return a field with the variables of its value replaced."""
    value = _replaced(field.value, visitor)
    return field if value is field.value else field.__class__(name=field.name, value=value, loc=field.loc)
'''

RECURSION = f"""\
    {VISITOR}    return cast("ConstValueNode", _replaced(value_node, visitor))
"""

TWICE = f"""\
    {VISITOR}    return cast("ConstValueNode", visit(visit(value_node, visitor), visitor))
"""

ONE_EXPRESSION = """\
    return cast(
        "ConstValueNode",
        visit(value_node, _ReplaceVariablesVisitor(variable_values, fragment_variable_values)),
    )
"""


def _with(body: str, helper: str = "") -> Callable[[Sources], dict[str, str]]:
    """Give the target another body, and the module a function behind it."""

    def changed(sources: Sources) -> dict[str, str]:
        text = replace_body(sources.base(PATH), NAME, body)
        if helper:
            imported = f"    ListValueNode,\n{IMPORTED}    ObjectFieldNode,\n    ObjectValueNode,\n"
            text = substitute(text, IMPORTED, imported)
            text = substitute(text, BETWEEN, f"{helper}{BETWEEN}")
        return {PATH: text}

    return changed


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), old, new)}


LISTS_OF_VARIABLES = REPLACED.replace(
    "[_replaced(value, visitor) for value in node.values]",
    "[_replaced(v, visitor) if isinstance(v, VariableNode) else v for v in node.values]",
)
SOURCE_IS_UNDEFINED = "        if scoped_variable_source.value is Undefined:\n"
OR_NONE = "        if scoped_variable_source.value is Undefined or scoped_variable_source.value is None:\n"
KEPT = """\
            if scoped_variable_source is not None and not (
                scoped_variable_source.value is Undefined
                and scoped_variable_source.signature.default_value is Undefined
            ):
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "recursion": _with(RECURSION, REPLACED),
    "constant_first": _with(CONSTANT_FIRST, HAS_VARIABLE),
    "lists_of_variables": _with(RECURSION, LISTS_OF_VARIABLES),
    "default_for_null": _change(SOURCE_IS_UNDEFINED, OR_NONE),
    "default_lost": _change(
        KEPT, "            if scoped_variable_source and scoped_variable_source.value is not Undefined:\n"
    ),
    "missing_kept": _change("            return NullValueNode()\n", "            return None\n"),
    "twice": _with(TWICE),
    "one_expression": _with(ONE_EXPRESSION),
}
