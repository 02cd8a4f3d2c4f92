"""The first 1024 bytes of pages: charset early, late, by http-equiv, in a comment, and none at all."""

from __future__ import annotations

from html5lib._inputstream import EncodingParser

SCRIPT = "<script>window.settings = {user: null, locale: 'en', flags: [1, 2, 3], debug: false};</script>\n"
STYLE = "<style>body { margin: 0 auto; font: 16px/1.5 sans-serif; } a:hover { color: #c00; }</style>\n"
TITLE = "<title>A page with a title of an ordinary length | The site</title>\n"
LINKS = "<link rel='stylesheet' href='/static/site.css'><link rel=icon href=/favicon.ico>\n"
COMMENT = "<!-- built on a Tuesday; <meta charset=koi8-r> is no longer used here -->\n"
EARLY, LATE = (
    '<meta charset="utf-8">\n',
    '<META http-equiv="Content-Type" content="text/html; charset=iso-8859-2">\n',
)
TEXT = "<p>Some text with <b>bold</b> words and an <a href='/there'>anchor</a>, as an article has it.</p>\n"
HEADS = [
    EARLY + TITLE + LINKS,
    TITLE + STYLE + SCRIPT + LATE + LINKS,
    COMMENT + LINKS + SCRIPT * 3 + EARLY,
    COMMENT + TITLE + STYLE * 2 + LATE,
    TITLE + TEXT * 9,
    "plain text without a tag in it, " * 32,
]
PAGES = [f"<!DOCTYPE html>\n<html lang=en>\n<head>\n{head}".encode()[:1024].ljust(1024) for head in HEADS]


def main() -> list[str | None]:
    """Return the name of each page's encoding."""
    found = [EncodingParser(page).getEncoding() for page in PAGES]
    return [each and each.name for each in found]
