"""A text in which ten words and two patterns are replaced."""

from __future__ import annotations

import re

from boltons.strutils import MultiReplace

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
REPLACE = MultiReplace(
    [
        *((word, word.upper()) for word in WORDS),
        (re.compile(r"\d+"), "<number>"),
        (re.compile(r"[a-z]+@[a-z]+"), "<address>"),
    ]
)
SENTENCE = "The {0} of some {1} in {2}, 17 of them, sent to someone@there, who keeps no {0}.\n"
TEXT = "".join(SENTENCE.format(WORDS[at % 10], WORDS[at * 7 % 10], WORDS[at * 3 % 10]) for at in range(150))


def main() -> str:
    return REPLACE.sub(TEXT)
