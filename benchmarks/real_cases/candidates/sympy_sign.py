"""Candidates of `sympy_sign`: the sign of a product, which asks each factor's imaginary part."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "sympy/functions/elementary/complexes.py"
PART = "                    ai = im(a)\n"
AFTER_LOOP = "            if c is S.One and len(unk) == len(args):\n"
TEST = "if a.is_imaginary and ai.is_comparable:"
WITH_RE = "if a.is_imaginary and ai.is_comparable and ar.is_zero:"
CLASS = "class sign(Function):\n"
START = "        # handle what we can\n        if arg.is_Mul:\n            c, args = arg.as_coeff_mul()\n"


def _change(*edits: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        for old, new in edits:
            text = substitute(text, old, new)
        return {PATH: text}

    return texts


def _undecided(block: str) -> Callable[[Sources], dict[str, str]]:
    """Treat a factor that is neither positive nor negative in another way."""

    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        old = text[text.index(PART) : text.index(AFTER_LOOP)]
        return {PATH: substitute(text, old, block)}

    return texts


# A square is taken for positive: true for what is real and not zero, for nothing else.
KEPT = "# Made once.\n_SQUARE_SIGN = sympify(1)\n_TWO = sympify(2)\n\n\n"
SQUARE = "        if arg.is_Pow and arg.exp == _TWO:\n            return _SQUARE_SIGN\n"

UNK_DROPPED = """\
                    if a.is_imaginary:
                        ai = im(a)
                        if ai.is_comparable:
                            s *= S.ImaginaryUnit
                            if ai.is_extended_negative:
                                s = -s
                    else:
                        unk.append(a)
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "llm_claude37_cached_sympify": _change((CLASS, KEPT + CLASS), (START, SQUARE + START)),
    "llm_gemini25pro_nameerror": _change((PART, "                    ai = imaginary_part(a)\n")),
    "imaginary_dropped": _undecided("                    unk.append(a)\n"),
    "unk_dropped": _undecided(UNK_DROPPED),
    "extra_re": _change((PART, PART + "                    ar = re(a)\n"), (TEST, WITH_RE)),
    "comparable_first": _change((TEST, "if ai.is_comparable and a.is_imaginary:")),
}
