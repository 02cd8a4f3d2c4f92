"""Answers of models: blocks with a path, one block without, and answers that cannot be taken."""

from __future__ import annotations

import pytest

from codeflash_parallel.candidates.model_answer import (
    AnswerFault,
    CodeBlock,
    blocks_of,
    common_function,
    is_whole_module,
)

ANSWER = """Here is a *faster* version, `x = 1`:

```python:src/shop/cart.py
def total(items):
    return sum(items)
```

and the constants, inside a list:

1. the file

   ~~~~ py:src/shop/rates.py
   RATES = {
       "```": 1,
   }
   ~~~~

```python
total([1])  # how it is used
```
"""


def test_blocks_with_a_path_are_taken_and_others_are_prose() -> None:
    assert blocks_of(ANSWER) == [
        CodeBlock("src/shop/cart.py", "def total(items):\n    return sum(items)\n"),
        CodeBlock("src/shop/rates.py", 'RATES = {\n    "```": 1,\n}\n'),
    ]


def test_a_single_python_block_needs_no_path() -> None:
    answer = "So:\r\n```Python\r\ndef f(): ...\r\n```\r\n```text\r\nfaster\r\n```\r\n"
    assert blocks_of(answer) == [CodeBlock("", "def f(): ...\n")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "no block of code"),
        ("```text\nx\n```\n", "no block of code"),
        ("```python\na\n```\n```python\nb\n```\n", "2 Python blocks"),
        ("```python:a.py\ndef f():\n", "ends inside the block 'python:a.py'"),
        ("````python:a.py\ndef f(): ...\n```\n", "ends inside the block"),
    ],
)
def test_an_answer_that_gives_no_candidate_says_why(answer: str, words: str) -> None:
    with pytest.raises(AnswerFault, match=words):
        blocks_of(answer)


MODULE = "import re\nre.purge()\nLIMIT: int = 3\nA, B = 1, 2\n\nclass Cart:\n    def add(self): ...\n\ndef total(x):\n    return x\n"


@pytest.mark.parametrize(
    ("block", "is_whole"),
    [
        (MODULE.replace("import re\n", '"""New words."""\nimport re, os\n'), True),
        (MODULE.replace("import re\n", ""), False),
        (MODULE.replace("re.purge()\n", ""), False),
        (MODULE + "def more(): ...\n", True),
        ("def total(x):\n    return 2\n", False),
        (MODULE.replace("    def add(self): ...", "    def other(self): ..."), False),
        (MODULE.replace("A, B", "A"), False),
        (MODULE.replace("LIMIT: int = 3\n", ""), False),
        ("def (", False),
    ],
)
def test_a_block_is_a_whole_module_where_nothing_is_lacking(block: str, is_whole: bool) -> None:
    assert is_whole_module(MODULE, block) == is_whole


def test_the_function_that_both_define_is_a_target_where_one_is() -> None:
    block = "class Cart:\n    def add(self): ...\ndef total(x): ...\n"
    assert common_function(MODULE, block, ("total",)) == "total"
    assert common_function(MODULE, block, ("gone",)) == "Cart.add"
    assert common_function(MODULE, "def new(): ...\n") == ""
