"""Texts of paragraphs as a document has them between its markup: most without quotes, some with several."""

from __future__ import annotations

from docutils.utils.smartquotes import educateQuotes

ENGLISH = [
    " The function returns the number of rows that were read from the file.",
    " It isn't an error to call it twice; the 2nd call's result is \"empty\".",
    " See also ",
    " and the options below, which are passed on as they are.",
    " \"'Quoted' words in a larger quote,\" as they were written in the '90s.",
    ' A dash\N{EM DASH}"like this"\N{EM DASH}and a bracket ("like that").',
    ".",
    " One may name several of them, separated by commas, in any order, as long as none is repeated.",
]
GERMAN = [
    " Die Funktion gibt die Zahl der Zeilen zurück.",
    " Sie sagte: \"Das geht so nicht, 'nie' und nimmer.\"",
    " Andrea's Buch ist fort.",
]


def main() -> list[str]:
    texts = [educateQuotes(text) for text in ENGLISH]
    return texts + [educateQuotes(text, "de") for text in GERMAN]
