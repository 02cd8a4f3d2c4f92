"""Files of which one in six says its encoding: prose, tables, HTML, XML, a Python file, bytes."""

from __future__ import annotations

from charset_normalizer.utils import any_specified_encoding

PROSE = b"A line of text that says nothing of how it is kept, and goes on a little.\n"
PAGE = b"<!doctype html><html><head><title>A page</title>"
FILES = [
    PROSE * 200,
    "Größe;Öl;Übermaß;42\n".encode("latin-1") * 300,
    PAGE + b"<p>" + PROSE * 100,
    PAGE + b'<meta charset="iso-8859-2"></head>' + PROSE * 100,
    PROSE[:40] * 3,
    bytes(range(256)) * 40,
    b'<?xml version="1.0"?>\n<rows>' + b"<row><name>a</name><value>1</value></row>" * 200,
    b"# -*- coding: cp1251 -*-\nimport os\n" + b"def some(thing):\n    return thing\n" * 100,
    b"",
    PROSE * 3,
    "Вот текст без указания.\n".encode() * 200,
    PROSE[:10] * 500,
]


def main() -> list[str | None]:
    return [any_specified_encoding(file) for file in FILES * 4]
