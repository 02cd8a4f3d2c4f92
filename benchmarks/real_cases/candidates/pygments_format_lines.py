"""Candidates of `pygments_format_lines`: tokens made into lines of HTML, a span for each run of a class."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_function, substitute

PATH = "pygments/formatters/html.py"
NAME = "HtmlFormatter._format_lines"

TRANSLATE = "parts = self._translate_parts(value)"
ALL_BUT_LAST = "        # for all but the last line\n"
BOTH_PARTS = "(part, (lspan and '</span>'), lsep)"
LAST_PARTS = "elif parts[-1]:"
AT_THE_END = (
    "    if line:\n        line.extend(((lspan and '</span>'), lsep))\n        yield 1, ''.join(line)\n"
)

ONE_PART = """\
        if len(parts) == 1:
            part = parts[0]
            if part:
                if not line:
                    line = [cspan, part]
                    lspan = cspan
                elif lspan == cspan:
                    line.append(part)
                else:
                    line.extend(((lspan and '</span>'), cspan, part))
                    lspan = cspan
            continue

"""

STRINGS = (
    ("    lspan = ''\n    line = []\n", "    lspan = ''\n    line = ''\n"),
    (
        f"line.extend(((lspan and '</span>'), cspan, part,\n{' ' * 33}(cspan and '</span>'), lsep))",
        "line += (lspan and '</span>') + cspan + part + (cspan and '</span>') + lsep",
    ),
    (f"line.extend({BOTH_PARTS})", "line += part + (lspan and '</span>') + lsep"),
    ("yield 1, ''.join(line)\n                line = []\n", "yield 1, line\n                line = ''\n"),
    (
        "line.extend(((lspan and '</span>'), cspan, parts[-1]))",
        "line += (lspan and '</span>') + cspan + parts[-1]",
    ),
    ("line.append(parts[-1])", "line += parts[-1]"),
    ("line = [cspan, parts[-1]]", "line = cspan + parts[-1]"),
    (AT_THE_END, "    if line:\n        yield 1, line + (lspan and '</span>') + lsep\n"),
)


def _change(*changes: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def changed(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        function = function_source(text, NAME)
        for old, new in changes:
            function = substitute(function, old, new)
        return {PATH: replace_function(text, NAME, function)}

    return changed


def _renamed(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    function = function_source(text, NAME).replace("lspan", "open_span").replace("cspan", "this_span")
    return {PATH: replace_function(text, NAME, function)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "upstream_quotes_kept": lambda sources: sources.upstream(1),
    "one_part": _change((ALL_BUT_LAST, ONE_PART + ALL_BUT_LAST)),
    "strings": _change(*STRINGS),
    "not_cached": _change((TRANSLATE, "parts = html_escape(value).split('\\n')")),
    "closed_by_this": _change((BOTH_PARTS, "(part, (cspan and '</span>'), lsep)")),
    "empty_spans": _change(("if lspan != cspan and part:", "if lspan != cspan:")),
    "end_lost": _change((AT_THE_END, "")),
    "plain_names_linked": _change(("ttype in Token.Name", "ttype is Token.Name")),
    "first_lost": _change((LAST_PARTS, "elif parts[-1] and lspan:")),
    "renamed": _renamed,
}
