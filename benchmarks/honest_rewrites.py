"""Faster rewrites of real functions by hand: prefilters, fast paths, better complexity. All are right.

A rewrite is a text that comes before the body of a function, or one that stands in its place. They are equal
to the baseline for whatever the functions are made for; where the baseline complains by accident (a number
where a text belongs) they may complain otherwise.
"""

from __future__ import annotations

import ast
import re

from workloads import Candidate

#: By package: functions, whether the text comes `before` or stands `instead`, and the text.
REWRITES = {
    "boltons": """
strip_ansi before
    if type(text) is str and "\\x1b" not in text:
        return text
asciify before
    if type(text) is str and text.isascii():
        return text.encode()
args2cmd before
    if type(args) is list and all(type(a) is str and a and not {*' \\t"\\\\'} & {*a} for a in args):
        return sep.join(args)
args2sh before
    if type(args) is list and all(args) and not any(map(_find_sh_unsafe, args)):
        return sep.join(args)
parse_int_list before
    if range_delim not in range_string:
        return sorted([int(part) for part in range_string.strip().split(delim) if part])
format_int_list instead
    runs = []
    for x in sorted(int_list):
        if not runs or x - runs[-1][1] > 1:
            runs.append([x, x])
        elif x - runs[-1][1] == 1:
            runs[-1][1] = x
    parts = [f"{a:d}" if a == b else f"{a:d}{range_delim}{b:d}" for a, b in runs]
    return (delim + " " if delim_space else delim).join(parts)
indent before
    if key is bool and text.isalnum():
        return margin + text
singularize before
    known = word.strip().lower()
    if not known.endswith("s") and known not in _IRR_P2S:
        return word
_match_case before
    if master.islower():
        return disciple.lower()
is_uuid before
    if type(obj) is str and len(obj) < 32:
        return False
bytes2human before
    if type(nbytes) is int:
        size, symbol = _SIZE_BOUNDS[min(max(abs(nbytes).bit_length() - 1, 0) // 10, 8)]
        return f"{float(nbytes) / size:.{ndigits}f}{symbol}"
ellipsize before
    if len(ellipsis) < max_len and len(text) <= max_len:
        return text
human_readable_list before
    if type(items) in (list, tuple) and len(items) == 2:
        one, two = items
        return f"{one} {conjunction.strip()} {two}"
""",
    "toolz": """
frequencies instead
    return dict(collections.Counter(iter(seq)))
topk instead
    if key is not None and not callable(key):
        key = getter(key)
    return tuple(sorted(seq, key=key, reverse=True)[: max(k, 0)])
groupby instead
    find = key if callable(key) else getter(key)
    groups = {}
    for item in seq:
        groups.setdefault(find(item), []).append(item)
    return groups
get before
    if type(ind) is int and type(seq) is list and 0 <= ind < len(seq):
        return seq[ind]
last before
    if type(seq) in (list, tuple, str):
        return seq[-1]
isdistinct before
    if type(seq) in (str, bytes, range) and len(seq) < 2:
        return True
""",
    "more-itertools": """
polynomial_from_roots before
    if type(roots) is list and {*map(type, roots)} <= {int}:
        poly = [1]
        for root in roots:
            shifted = [*poly, 0]
            for place, coefficient in enumerate(poly, 1):
                shifted[place] -= coefficient * root
            poly = shifted
        return poly
sum_of_squares instead
    return sum([value * value for value in iterable])
dotproduct instead
    return sum([one * two for one, two in zip(vec1, vec2)])
polynomial_eval before
    if type(coefficients) in (list, tuple) and coefficients and {*map(type, (x, *coefficients))} == {int}:
        value = 0
        for coefficient in coefficients:
            value = value * x + coefficient
        return value
polynomial_derivative instead
    return [one * power for one, power in zip(coefficients, range(len(coefficients) - 1, 0, -1))]
nth_combination before
    if r == 1 and type(index) is int:
        return (tuple(iterable)[index],)
all_equal before
    if key is None and type(iterable) in (list, tuple, str):
        return not iterable or iterable.count(iterable[0]) == len(iterable)
quantify before
    if pred is bool:
        return sum([1 for value in iterable if value])
""",
    "inflection": """
pluralize instead
    if not word or word.lower() in UNCOUNTABLES:
        return word
    for rule, replacement in PLURALS:
        changed, count = re.subn(rule, replacement, word)
        if count:
            return changed
    return word
singularize instead
    if re.search(r"(?i)\\b(?:%s)\\Z" % "|".join(UNCOUNTABLES), word):
        return word
    for rule, replacement in SINGULARS:
        changed, count = re.subn(rule, replacement, word)
        if count:
            return changed
    return word
ordinal instead
    tens, ones = divmod(abs(int(number)) % 100, 10)
    return "th" if tens == 1 or ones > 3 else ("th", "st", "nd", "rd")[ones]
underscore before
    if word.isascii() and word.islower() and "-" not in word:
        return word
transliterate before
    if string.isascii():
        return string
parameterize before
    if separator == "-" and string.isascii() and string.isalnum():
        return string.lower()
camelize before
    if uppercase_first_letter and "_" not in string:
        return string[:1].upper() + string[1:]
""",
    "webcolors": """
html5_parse_legacy_color before
    if type(value) is str and len(value) == 7 and value[0] == "#" and {*value[1:]} <= {*string.hexdigits}:
        return html5_parse_simple_color(value)
html5_parse_simple_color before
    if type(value) is str and len(value) == 7 and value[0] == "#" and {*value[1:]} <= {*string.hexdigits}:
        number = int(value[1:], 16)
        return HTML5SimpleColor(number >> 16, number >> 8 & 255, number & 255)
html5_serialize_simple_color before
    if isinstance(simple_color, tuple) and len(simple_color) == 3 and {*map(type, simple_color)} == {int}:
        return "#%02x%02x%02x" % tuple(simple_color)
""",
    "humanize": """
apnumber before
    if type(value) is int and 10 <= value < 10**15:
        return str(value)
intword before
    if type(value) is int and -1000 < value < 1000:
        return str(value)
intcomma before
    if type(value) is int and ndigits is None and -1000 < value < 1000:
        return str(value)
fractional before
    if type(value) is int and abs(value) < 2**53:
        return str(value)
""",
    "python-slugify": """
smart_truncate instead
    string = string.strip(separator)
    if not max_length or len(string) < max_length:
        return string
    if not word_boundary:
        return string[:max_length].strip(separator)
    if separator not in string:
        return string[:max_length]
    parts, size = [], 0
    for word in string.split(separator):
        if word and size + len(word) < max_length:
            parts += word, separator
            size += len(word) + len(separator)
        elif word and size + len(word) == max_length:
            parts.append(word)
            break
        elif word and save_order:
            break
    return ("".join(parts) or string[:max_length]).strip(separator)
_decode_entities before
    if "&" not in text:
        return text
slugify before
    options = stopwords or regex_pattern or replacements or replacement_stage != "both" or backend != "auto"
    if type(text) is str and text.isascii() and text.isalpha() and not options:
        return (text.lower() if lowercase else text)[: max(max_length, 0) or None]
""",
    "idna": """
check_bidi before
    if not check_ltr and len(label) <= _max_input_length and label.isascii():
        return True
check_nfc before
    if len(label) <= _max_input_length and label.isascii():
        return
""",
    "tabulate": """
_strip_ansi before
    if type(s) is str and "\\x1b" not in s:
        return s
_visible_width before
    if type(s) is str and not WIDE_CHARS_MODE and "\\x1b" not in s:
        return len(s)
_multiline_width before
    if "\\n" not in multiline_s and "\\r" not in multiline_s:
        return line_width_fn(multiline_s)
_padleft before
    if type(s) is str and type(width) is int and width >= 0:
        return s.rjust(width)
_padright before
    if type(s) is str and type(width) is int and width >= 0:
        return s.ljust(width)
""",
}


def written(package: str, source: str) -> dict[str, Candidate]:
    """Return the rewrites of a package by the function that they change."""
    found = {}
    for part in re.split(r"\n(?=\w)", REWRITES[package].strip()):
        head, text = part.split("\n", 1)
        name, way = head.split()
        found[name] = Candidate(id=f"{package}-{name}", text=_rewritten(source, name, way, text))
    return found


def _rewritten(source: str, name: str, way: str, text: str) -> str:
    (node,) = (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == name)
    body = node.body[ast.get_docstring(node) is not None :]
    lines = source.splitlines(keepends=True)
    rest = lines[body[0].lineno - 1 if way == "before" else node.end_lineno :]
    return "".join([*lines[: body[0].lineno - 1], text, "\n", *rest])
