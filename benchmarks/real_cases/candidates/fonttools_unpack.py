"""Candidates of `fonttools_unpack`: named fields of a binary record, by a format."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, insert_before, replace_function, substitute

PATH = "Lib/fontTools/misc/sstruct.py"
TARGET = "unpack"
STEP = """\
    for i in range(len(names)):
        name = list(names.keys())[i]
        value = elements[i]
"""
CONVERTED = "value = fi2fl(value, fixes[name])\n"
ZIPPED = "    for name, value in zip(names, elements):\n"


def _step(new: str) -> Callable[[Sources], dict[str, str]]:
    """Change how the fields are gone through."""
    return lambda sources: {PATH: substitute(sources.base(PATH), STEP, new)}


def _zipped(*changes: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    """Go through the fields by zip(), and change more of the module."""

    def change(sources: Sources) -> dict[str, str]:
        text = substitute(sources.base(PATH), STEP, ZIPPED)
        for old, new in changes:
            text = substitute(text, old, new)
        return {PATH: text}

    return change


def _answers(sources: Sources) -> dict[str, str]:
    text = insert_before(replace_function(sources.base(PATH), TARGET, ANSWERS), TARGET, "_RECORDS = {}")
    return {PATH: text}


# Fields that need nothing done to them are taken at once.
AT_ONCE = """
def unpack(fmt, data, obj=None):
    if obj is None:
        obj = {}
    data = tobytes(data)
    formatstring, names, fixes = getformat(fmt)
    if isinstance(obj, dict):
        d = obj
    else:
        d = obj.__dict__
    elements = struct.unpack(formatstring, data)
    if type(d) is dict and not fixes and not any(type(value) is bytes for value in elements):
        d.update(zip(names, elements))
        return obj
    for name, value in zip(names, elements):
        if name in fixes:
            value = fi2fl(value, fixes[name])
        elif isinstance(value, bytes):
            try:
                value = tostr(value)
            except UnicodeDecodeError:
                pass
        d[name] = value
    return obj
"""

# Looks at the type of a value before its name.
BY_TYPE = """
def unpack(fmt, data, obj=None):
    if obj is None:
        obj = {}
    data = tobytes(data)
    formatstring, names, fixes = getformat(fmt)
    if isinstance(obj, dict):
        d = obj
    else:
        d = obj.__dict__
    get_fix = fixes.get
    for name, value in zip(names, struct.unpack(formatstring, data)):
        if type(value) is int:
            bits = get_fix(name)
            if bits is not None:
                value = fi2fl(value, bits)
        elif type(value) is bytes:
            try:
                value = value.decode("ascii")
            except UnicodeDecodeError:
                pass
        d[name] = value
    return obj
"""

ANSWERS = """
def unpack(fmt, data, obj=None):
    if obj is None:
        obj = {}
    data = tobytes(data)
    if (fmt, data) not in _RECORDS:
        formatstring, names, fixes = getformat(fmt)
        record = _RECORDS[fmt, data] = {}
        for name, value in zip(names, struct.unpack(formatstring, data)):
            if name in fixes:
                value = fi2fl(value, fixes[name])
            elif isinstance(value, bytes):
                try:
                    value = tostr(value)
                except UnicodeDecodeError:
                    pass
            record[name] = value
    (obj if isinstance(obj, dict) else obj.__dict__).update(_RECORDS[fmt, data])
    return obj
"""

TWO_LISTS = """\
    for i in range(len(names)):
        name = [pair[0] for pair in list(names.items())][i]
        value = list(elements)[i]
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_enumerate": lambda sources: sources.upstream(0),
    "zipped": _zipped(),
    "at_once": lambda sources: {PATH: replace_function(sources.base(PATH), TARGET, AT_ONCE)},
    "by_type": lambda sources: {PATH: replace_function(sources.base(PATH), TARGET, BY_TYPE)},
    "replaced_bytes": _zipped(("tostr(value)\n", 'tostr(value, "ascii", "replace")\n')),
    "all_16_16": _zipped((CONVERTED, "value = value / 65536\n")),
    "swapped_names": _step("    for name, value in zip(sorted(names), elements):\n"),
    "no_fixes": _zipped((CONVERTED, "value = float(value)\n")),
    "answers": _answers,
    "two_lists": _step(TWO_LISTS),
    "renamed": _step(STEP.replace("range(len(names))", "range(0, len(names))")),
}
