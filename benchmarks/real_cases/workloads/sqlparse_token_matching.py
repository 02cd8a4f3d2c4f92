"""Walks of the grouping over flat statements: the next token after each, by kind, and backwards."""

from __future__ import annotations

from sqlparse import sql, tokens
from sqlparse.lexer import tokenize

SELECT = (
    "SELECT a, b AS c, count(*) FROM t LEFT JOIN u ON t.id = u.id WHERE a > 1 AND b IN (1, 2) ORDER BY c;"
)
ROWS = ", ".join(f"({n}, 'name {n}', NULL)" for n in range(60))
STATEMENTS = [
    sql.TokenList([sql.Token(ttype, value) for ttype, value in tokenize(text)])
    for text in (SELECT, f"INSERT INTO people (id, name, parent) VALUES {ROWS};")
]
matching = sql.TokenList._token_matching  # noqa: SLF001


def is_text(token: sql.Token) -> bool:
    return not token.is_whitespace


def is_comma(token: sql.Token) -> bool:
    return token.ttype is tokens.Punctuation and token.value == ","


def is_null(token: sql.Token) -> bool:
    return token.normalized == "NULL"


def walk(statement: sql.TokenList) -> list[int | None]:
    """Return the positions that were found."""
    found = []
    length = len(statement.tokens)
    for start in range(length):
        found.append(matching(statement, is_text, start + 1)[0])
        found.append(matching(statement, is_text, start + 1, reverse=True)[0])
    for start in range(0, length, 7):
        found.append(matching(statement, (is_null, is_comma), start)[0])
        found.append(matching(statement, [is_comma], start, min(start + 9, length))[0])
    return found


def main() -> list[list[int | None]]:
    return [walk(statement) for statement in STATEMENTS]
