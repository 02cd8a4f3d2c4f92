"""Arguments of a query as clients send them: a filter, a batch of inputs, constants."""

from __future__ import annotations

from graphql.execution.values import get_variable_values
from graphql.language import TokenKind, parse_value, print_ast
from graphql.language.parser import Parser
from graphql.type import GraphQLInt, GraphQLSchema, GraphQLString
from graphql.utilities import replace_variables

FILTER = """{ and: [{ name: { contains: $text } }, { age: { from: $low, to: $high } }, { or: [{ city: $city },
  { zip: { in: ["1000", "2000", $zip] } }] }], order: [{ by: NAME }, { by: $column, down: true }] }"""
BATCH = (
    "["
    + ", ".join(f'{{ id: {n}, title: "no {n}", tags: [$text, "b"], note: $none }}' for n in range(20))
    + "]"
)
CONSTANT = "[" + ", ".join(f"{{ x: {n}, y: [{n}, null, RED], on: true }}" for n in range(20)) + "]"
DEFINITIONS = (
    "($text: String, $low: Int = 1, $high: Int, $city: String, $zip: String, $column: String, $none: Int)"
)
INPUTS = {"text": "ab", "high": 99, "city": "Ghent", "zip": "9000", "column": "AGE"}
VALUES = [
    parse_value(text) for text in (FILTER, BATCH, CONSTANT, "$text", "7", "{ first: $high, after: $none }")
]


def variables(definitions: str, inputs: dict[str, object]) -> object:
    parser = Parser(definitions)
    parser.expect_token(TokenKind.SOF)
    schema = GraphQLSchema(types=[GraphQLInt, GraphQLString])
    return get_variable_values(schema, parser.parse_variable_definitions(), inputs)


OF_OPERATION = variables(DEFINITIONS, INPUTS)
OF_FRAGMENT = variables('($text: String = "fragment", $city: String)', {"city": "Liege"})


def main() -> list[str]:
    for _ in range(20):
        replaced = [replace_variables(value, OF_OPERATION) for value in VALUES]
        replaced += [replace_variables(value, OF_OPERATION, OF_FRAGMENT) for value in VALUES]
    return [print_ast(value) for value in replaced]
