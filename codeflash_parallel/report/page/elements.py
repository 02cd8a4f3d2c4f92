"""Building blocks of pages: elements that escape and bound every text, tables, and pages themselves.

What is made is HTML that is well-formed XML, too, so that tests can parse it strictly. Text of others never
becomes markup: a `str` is escaped, and `Markup` comes from `element` alone.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from codeflash_parallel.report.page.styles import STYLE
from codeflash_parallel.result.safe_text import one_line, printable

#: Characters of one text that are shown; commands and documents have the whole.
MOST_CHARACTERS = 2_000
#: Elements of HTML without an end.
_VOID = frozenset({"meta", "link"})
#: Elements of SVG that hold nothing but a title: written short where they have none.
_SHAPES = frozenset({"line", "circle", "rect"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


#: Values of attributes; `None`: the attribute is left out.
Attributes = Mapping[str, str | int | float | None]


def element(tag: str, attributes: Attributes | None = None, *children: str) -> Markup:
    """Return an element.

    Args:
        tag: its name; ours.
        attributes: their values may be text of others.
        children: `Markup`, or text, which is escaped and cut at `MOST_CHARACTERS`.
    """
    given = (attributes or {}).items()
    start = tag + "".join(f' {name}="{_value(value)}"' for name, value in given if value is not None)
    inside = "".join(map(_child, children))
    if tag in _VOID or (tag in _SHAPES and not inside):
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{inside}</{tag}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Return markup one after the other."""
    return Markup("".join(parts))


def bounded(text: str, limit: int = MOST_CHARACTERS) -> str:
    """Return printable text of at most about `limit` characters that says how many are missing."""
    if len(text) <= limit:
        return printable(text)
    return f"{printable(text[:limit])}… ({len(text) - limit:,} more characters)"


def _child(child: str) -> str:
    return child if isinstance(child, Markup) else escape(bounded(child), quote=False)


def _value(value: str | float) -> str:
    return escape(one_line(str(value), limit=MOST_CHARACTERS)) if isinstance(value, str) else f"{value:.6g}"


# --- parts of a page -------------------------------------------------------------------------------------


def paragraph(*words: str) -> Markup:
    """Return a paragraph; empty without words."""
    return element("p", None, *words) if any(words) else Markup()


def code(text: str) -> Markup:
    """Return text of a program."""
    return element("code", None, text)


def section(anchor: str, heading: str, *parts: Markup) -> Markup:
    """Return a section of the page with its heading; empty where it has no parts."""
    if not any(parts):
        return Markup()
    return element(
        "section", {"aria-labelledby": anchor}, element("h2", {"id": anchor}, heading), joined(parts)
    )


def disclosure(summary: str, *parts: Markup) -> Markup:
    """Return parts that are shown when they are asked for."""
    return element("details", None, element("summary", None, summary), joined(parts))


def table(
    caption: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    figures: Iterable[int] = (),
    notes: Sequence[str] = (),
    kind: str | None = None,
) -> Markup:
    """Return a table in a box that scrolls by itself, with the keyboard, too; a row begins with its heading.

    Args:
        caption: names the table and its box; a page has each one once.
        header: names of the columns.
        rows: cells; a `td` or `th` is taken as it is.
        figures: places of the columns that are aligned to the right.
        notes: sentences about the rows, each under its own; where the table scrolls, they stay in sight.
        kind: class of the table.
    """
    right = frozenset(figures)

    def cell(place: int, content: str) -> Markup:
        if isinstance(content, Markup) and content.startswith(("<td", "<th")):
            return content
        if place == 0:
            return element("th", {"scope": "row"}, content)
        return element("td", {"class": "n" if place in right else None}, content)

    heads = [
        element("th", {"scope": "col", "class": "n" if n in right else None}, element("span", None, name))
        for n, name in enumerate(header)
    ]
    body = [
        element("tr", {"class": "noted" if notes else None}, *(cell(n, text) for n, text in enumerate(row)))
        for row in rows
    ]
    if notes:
        cells = (element("td", {"colspan": len(header)}, element("div", None, note)) for note in notes)
        body = [Markup(row + element("tr", None, below)) for row, below in zip(body, cells, strict=True)]
    whole = element(
        "table",
        {"class": kind},
        element("caption", None, caption),
        element("thead", None, element("tr", None, *heads)),
        element("tbody", None, joined(body)),
    )
    return element("section", {"class": "scroll", "aria-label": caption, "tabindex": 0}, whole)


def pairs(rows: Iterable[tuple[str, str]]) -> Markup:
    """Return names and values as a list; a name has all its values."""
    values: dict[str, list[Markup]] = {}
    for name, value in rows:
        if value:
            values.setdefault(name, []).append(element("dd", None, value))
    items = [element("div", None, element("dt", None, name), *found) for name, found in values.items()]
    return element("dl", None, *items) if items else Markup()


def page(title: str, heading: str, sections: Iterable[Markup]) -> str:
    """Return a whole document.

    The policy forbids whatever is not in the file: scripts, requests, forms. The style's digest is in it.

    Args:
        title: of the window.
        heading: the heading of the first level.
        sections: what follows it.
    """
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    style = f"style-src 'sha256-{digest}'"
    policy = f"default-src 'none'; {style}; img-src data:; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": policy}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("meta", {"name": "referrer", "content": "no-referrer"}),
        element("title", None, one_line(title, limit=120)),
        element("link", {"rel": "icon", "href": "data:,"}),
        element("style", None, Markup(STYLE)),
    )
    body = element(
        "body",
        None,
        element("a", {"class": "skip", "href": "#main"}, "Skip to the result"),
        element("main", {"id": "main", "tabindex": -1}, element("h1", None, heading), *sections),
    )
    return f"<!DOCTYPE html>\n{element('html', {'lang': 'en'}, head, body)}\n"
