"""A module, and replacements of its functions with what they change."""

import textwrap


def text(block: str) -> str:
    return textwrap.dedent(block).lstrip("\n")


ORIGINAL = text('''
    #!/usr/bin/env python
    """Graphs."""

    from __future__ import annotations

    import os
    from collections import deque
    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from collections.abc import Iterable

    LIMIT = 10  # how many


    def helper(x):
        # doubles
        return x * 2


    # what follows is slow
    @decorate(level=1)  # keep me
    def target(nodes: Iterable[int]) -> list[int]:
        """Sort.

      Odd indentation stays.
        """
        return sorted(nodes)  # by value

    # after


    class Graph(Base):
        """A graph."""

        weight = 1

        def __init__(self):
            self.nodes = []

        @property
        def size(self):
            return len(self.nodes)

        @size.setter
        def size(self, value):
            raise AttributeError

        class Node:
            def visit(self, seen):
                seen.append(self)
                return seen

        @staticmethod
        def parse(raw):
            return raw.split(",")
    ''')

CASES = {
    "a function alone": (
        "target",
        "def target(nodes):\n    return list(nodes)\n",
        {
            "def target(nodes: Iterable[int]) -> list[int]:": "def target(nodes):",
            '    """Sort.\n\n  Odd indentation stays.\n    """\n': "",
            "    return sorted(nodes)  # by value": "    return list(nodes)",
        },
    ),
    "two spaces, comments, a multi-line string": (
        "target",
        'def target(nodes):\n  # new\n  text = """\n one\n  two"""\n\n  return nodes  # end\n',
        {
            "def target(nodes: Iterable[int]) -> list[int]:": "def target(nodes):",
            '    """Sort.\n\n  Odd indentation stays.\n    """\n': '  # new\n  text = """\n one\n  two"""\n\n',
            "    return sorted(nodes)  # by value": "  return nodes  # end",
        },
    ),
    "a bare method": (
        "Graph.Node.visit",
        "def visit(self, seen):\n    if seen:\n        return seen\n",
        {
            "            seen.append(self)\n            return seen": "            if seen:\n                return seen"
        },
    ),
    "an indented bare method": (
        "Graph.Node.visit",
        "    def visit(self, seen):\n        return seen\n",
        {"            seen.append(self)\n            return seen": "            return seen"},
    ),
    "a method in its innermost class": (
        "Graph.Node.visit",
        "class Node:\n    def visit(self, seen):\n        return seen\n",
        {"            seen.append(self)\n            return seen": "            return seen"},
    ),
    "a method in all its classes, without the base": (
        "Graph.Node.visit",
        "class Graph:\n  class Node:\n    def visit(self, seen):\n      return seen\n",
        {"            seen.append(self)\n            return seen": "          return seen"},
    ),
    "siblings in the given class": (
        "Graph.parse",
        '''class Graph(Base):
    """Other words."""
    weight = 2
    depth = 3

    def __init__(self):
        self.nodes = {}

    def size(self): ...

    def _fast(self):
        return 1

    @staticmethod
    def parse(raw):
        return raw.split(";")
''',
        {
            "    weight = 1": "    weight = 2",
            "        self.nodes = []": "        self.nodes = {}",
            "    @staticmethod\n": "    depth = 3\n\n    def _fast(self):\n        return 1\n\n    @staticmethod\n",
            'split(",")': 'split(";")',
        },
    ),
    "bare siblings": (
        "Graph.parse",
        "import re\n\ndef _fast(self):\n    return 1\n\ndef other(x):\n    return x\n\ndef parse(raw):\n    return other(raw)\n",
        {
            "TYPE_CHECKING\n": "TYPE_CHECKING\nimport re\n",
            "class Graph": "def other(x):\n    return x\n\n\nclass Graph",
            "    @staticmethod\n": "    def _fast(self):\n        return 1\n\n    @staticmethod\n",
            'raw.split(",")': "other(raw)",
        },
    ),
    "a property": (
        "Graph.size",
        text("""
            class Graph:
                @property
                def size(self):
                    return self._n
                @size.setter
                def size(self, value):
                    self._n = value
                @size.deleter
                def size(self):
                    del self._n
            """),
        {
            "        return len(self.nodes)": "        return self._n",
            "        raise AttributeError\n": "        self._n = value\n\n    @size.deleter\n    def size(self):\n        del self._n\n",
        },
    ),
    "imports merged": (
        "helper",
        '''"""Mine."""
from __future__ import annotations
import os, sys
import os.path as p
from collections import deque, Counter
from typing import TYPE_CHECKING
from . import sibling
from math import *
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

def helper(x):
    return x * 3
''',
        {
            "TYPE_CHECKING\n\n": "TYPE_CHECKING\nimport sys\nimport os.path as p\nfrom collections import Counter\n"
            "from . import sibling\nfrom math import *\n"
            "if TYPE_CHECKING:\n    from collections.abc import Iterator\n\n",
            "return x * 2": "return x * 3",
            "    # doubles\n": "",
        },
    ),
    "helpers added above, with their comments and blank lines": (
        "target",
        '''import heapq

# cache of results
CACHE: dict = {}
SIZE = 3

@heapq.something
def fresh(x):
    """Doc."""
    return x
    # tail

class Box:
    __slots__ = ()

def target(nodes: Iterable[int]) -> list[int]:
    """Sort.

  Odd indentation stays.
    """
    return fresh(nodes)  # by value


if __name__ == "__main__":
    print(target([1]))
''',
        {
            "TYPE_CHECKING\n\n": "TYPE_CHECKING\nimport heapq\n\n",
            "# what follows is slow\n": '''# cache of results
CACHE: dict = {}
SIZE = 3

@heapq.something
def fresh(x):
    """Doc."""
    return x
    # tail

class Box:
    __slots__ = ()


# what follows is slow
''',
            "sorted(nodes)": "fresh(nodes)",
        },
    ),
    "helpers that exist and differ are replaced in place": (
        "target",
        "LIMIT = 20\ndef helper(x):\n    return x + x\ndef target(nodes):\n    return nodes",
        {
            "LIMIT = 10  # how many": "LIMIT = 20",
            "    # doubles\n    return x * 2": "    return x + x",
            "def target(nodes: Iterable[int]) -> list[int]:": "def target(nodes):",
            '    """Sort.\n\n  Odd indentation stays.\n    """\n    return sorted(nodes)  # by value': "    return nodes",
        },
    ),
    "a helper that is needed earlier goes earlier": (
        "target",
        "STEP = 2\ndef build():\n    return STEP\nLIMIT = build()\ndef target(nodes):\n    return nodes",
        {
            "LIMIT = 10  # how many": "STEP = 2\ndef build():\n    return STEP\n\n\nLIMIT = build()",
            "def target(nodes: Iterable[int]) -> list[int]:": "def target(nodes):",
            '    """Sort.\n\n  Odd indentation stays.\n    """\n    return sorted(nodes)  # by value': "    return nodes",
        },
    ),
    "decorators added, changed and kept": (
        "Graph.parse",
        "import functools\n@staticmethod\n@functools.lru_cache(maxsize=None)\ndef parse(raw):\n    return raw\n",
        {
            "TYPE_CHECKING\n\n": "TYPE_CHECKING\nimport functools\n\n",
            "    @staticmethod\n": "    @staticmethod\n    @functools.lru_cache(maxsize=None)\n",
            'raw.split(",")': "raw",
        },
    ),
    "a decorator with other arguments, one above and one below": (
        "target",
        "@one\n@decorate(level=2)\n@two\ndef target(nodes): return 1\n",
        {
            "@decorate(level=1)  # keep me": "@one\n@decorate(level=2)\n@two",
            "def target(nodes: Iterable[int]) -> list[int]:": "def target(nodes): return 1",
            '    """Sort.\n\n  Odd indentation stays.\n    """\n    return sorted(nodes)  # by value\n': "",
        },
    ),
    "a class's bases": (
        "Graph.parse",
        "class Graph(Base, metaclass=M):\n    def parse(raw):\n        return raw\n",
        {"class Graph(Base):": "class Graph(Base, metaclass=M):", 'raw.split(",")': "raw"},
    ),
}
