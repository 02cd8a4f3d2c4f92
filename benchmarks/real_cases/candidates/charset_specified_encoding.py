"""Candidates of `charset_specified_encoding`: the encoding that the first bytes of a text name."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, insert_before, replace_function, substitute

PATH = "src/charset_normalizer/utils.py"
TARGET = "any_specified_encoding"

ZONE = """    results: list[str] = findall(
        RE_POSSIBLE_ENCODING_INDICATION,
        sequence[: min(seq_len, search_zone)].decode("ascii", errors="ignore"),
    )
"""
SEARCH = """    results: list[str] = findall(RE_POSSIBLE_ENCODING_INDICATION, zone)
"""
DECODED = """    zone: str = sequence[: min(seq_len, search_zone)].decode("ascii", errors="ignore")
"""


def _before_search(guard: str) -> Callable[[Sources], dict[str, str]]:
    """Look at the decoded zone before the regular expression does."""
    return lambda sources: {PATH: substitute(sources.base(PATH), ZONE, DECODED + guard + SEARCH)}


ONLY_CHARSET_WORD = """    if "charset" not in zone.lower():
        return None

"""

CASE_SENSITIVE = """    if "coding" not in zone and "charset" not in zone:
        return None

"""


def bytes_prefilter(sources: Sources) -> dict[str, str]:
    guarded = """    raw = sequence[: min(seq_len, search_zone)]
    lowered = raw.lower()
    if b"coding" not in lowered and b"charset" not in lowered:
        return None

    results: list[str] = findall(
        RE_POSSIBLE_ENCODING_INDICATION,
        raw.decode("ascii", errors="ignore"),
    )
"""
    return {PATH: substitute(sources.base(PATH), ZONE, guarded)}


def first_kb_only(sources: Sources) -> dict[str, str]:
    return {
        PATH: substitute(sources.base(PATH), "min(seq_len, search_zone)", "min(seq_len, search_zone, 1024)")
    }


LOOP = """        encoding_alias: str
        encoding_iana: str

        for encoding_alias, encoding_iana in aliases.items():
            if encoding_alias == specified_encoding:
                return encoding_iana
            if encoding_iana == specified_encoding:
                return encoding_iana
"""
LOOKUP = """        encoding_iana: str | None = _IANA_OF_NAME.get(specified_encoding)

        if encoding_iana is not None:
            return encoding_iana
"""
TABLE = """
_IANA_OF_NAME: dict[str, str] = {}
for _alias, _iana in aliases.items():
    _IANA_OF_NAME.setdefault(_alias, _iana)
    _IANA_OF_NAME.setdefault(_iana, _iana)
"""


def dict_lookup_only(sources: Sources) -> dict[str, str]:
    return {PATH: insert_before(substitute(sources.base(PATH), LOOP, LOOKUP), TARGET, TABLE)}


def recompile(sources: Sources) -> dict[str, str]:
    compiled = """    re.purge()
    pattern = re.compile(
        RE_POSSIBLE_ENCODING_INDICATION.pattern, RE_POSSIBLE_ENCODING_INDICATION.flags
    )
    results: list[str] = pattern.findall(
        sequence[: min(seq_len, search_zone)].decode("ascii", errors="ignore"),
    )
"""
    text = substitute(sources.base(PATH), "import logging\n", "import logging\nimport re\n")
    return {PATH: substitute(text, ZONE, compiled)}


NONE_ALWAYS = '''
def any_specified_encoding(
    sequence: bytes | bytearray, search_zone: int = 8192
) -> str | None:
    """
    Extract using ASCII-only decoder any specified encoding in the first n-bytes.
    """
    if not isinstance(sequence, (bytes, bytearray)):
        raise TypeError

    return None
'''

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_prefilter": lambda sources: sources.upstream(0),
    "only_charset_word": _before_search(ONLY_CHARSET_WORD),
    "case_sensitive": _before_search(CASE_SENSITIVE),
    "bytes_prefilter": bytes_prefilter,
    "first_kb_only": first_kb_only,
    "dict_lookup_only": dict_lookup_only,
    "recompile": recompile,
    "none_always": lambda sources: {PATH: replace_function(sources.base(PATH), TARGET, NONE_ALWAYS)},
}
