"""Runs of one to five words of a text of 2000, padded and not, as a language model takes them."""

from __future__ import annotations

from collections import Counter

from nltk.util import ngrams

SENTENCE = "the cat sat on a mat while an old dog slept near its own door and nobody saw them there"
WORDS = SENTENCE.split()
TEXT = [WORDS[at * at % 83 % len(WORDS)] for at in range(2000)]


def main() -> list[list[tuple[tuple[str | None, ...], int]]]:
    """Return the most common runs of each length."""
    runs = [
        ngrams(TEXT, n, pad_left=padded, pad_right=padded) for n in range(1, 6) for padded in (False, True)
    ]
    return [Counter(each).most_common(3) for each in runs]
