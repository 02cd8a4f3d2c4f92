"""Candidates of `attrs_asdict`: an instance, and whatever it holds, as dictionaries."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, insert_before, replace_function, substitute

PATH = "src/attr/_funcs.py"

LEAVES = """
_LEAF_TYPES = frozenset({bool, bytes, complex, float, int, str, range, type, type(None), type(...)})
"""

#: Where `asdict` begins to ask what a value is.
FIRST_QUESTION = "            if has(v.__class__):\n                rv[a.name] = asdict("
#: The same of `_asdict_anything`.
ANYTHING_QUESTION = 'if getattr(val.__class__, "__attrs_attrs__", None) is not None:'


def _edited(text: str, name: str, old: str, new: str) -> str:
    """Substitute within one function."""
    return replace_function(text, name, substitute(function_source(text, name), old, new))


def _fast_asdict(text: str, leaf: str) -> str:
    return _edited(
        text,
        "asdict",
        FIRST_QUESTION,
        f"            if {leaf}:\n"
        "                rv[a.name] = v\n"
        "            elif has(v.__class__):\n"
        "                rv[a.name] = asdict(",
    )


def only_asdict_half(sources: Sources) -> dict[str, str]:
    text = _fast_asdict(sources.base(PATH), "v.__class__ in _LEAF_TYPES")
    return {PATH: insert_before(text, "asdict", LEAVES)}


def lists_are_atomic(sources: Sources) -> dict[str, str]:
    """Take upstream's change, and count lists and dictionaries among the leaves."""
    text = sources.upstream(0)[PATH]
    return {
        PATH: substitute(text, "        property,\n", "        property,\n        list,\n        dict,\n")
    }


def serializer_skipped(sources: Sources) -> dict[str, str]:
    """Take upstream's change, and return leaves of containers as they are."""
    text = sources.upstream(0)[PATH]
    called = """    if val_type in _ATOMIC_TYPES:
        rv = val
        if value_serializer is not None:
            rv = value_serializer(None, None, rv)
"""
    skipped = """    if val_type in _ATOMIC_TYPES:
        rv = val
"""
    return {PATH: _edited(text, "_asdict_anything", called, skipped)}


def exact_types_only(sources: Sources) -> dict[str, str]:
    """Take upstream's change, and know containers by their exact type."""
    text = sources.upstream(0)[PATH]
    for name, kind in (("asdict", "value_type"), ("_asdict_anything", "val_type")):
        sequence = f"issubclass({kind}, (tuple, list, set, frozenset))"
        text = _edited(text, name, sequence, f"{kind} in (tuple, list, set, frozenset)")
        text = _edited(text, name, f"issubclass({kind}, dict)", f"{kind} is dict")
    return {PATH: text}


def linear_type_scan(sources: Sources) -> dict[str, str]:
    """Search leaves in a list, and ask `has` again for whatever is none."""
    in_list = LEAVES.replace("frozenset({", "[").replace("})", "]")
    text = _fast_asdict(sources.base(PATH), "not has(v.__class__) and v.__class__ in list(_LEAF_TYPES)")
    leaf = """if not has(val.__class__) and val.__class__ in list(_LEAF_TYPES):
        rv = val
        if value_serializer is not None:
            rv = value_serializer(None, None, rv)
    elif has(val.__class__):"""
    text = _edited(text, "_asdict_anything", ANYTHING_QUESTION, leaf)
    return {PATH: insert_before(text, "asdict", in_list)}


def docstring_only(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    commented = f"# Whatever is an attrs class goes through asdict.\n    {ANYTHING_QUESTION}"
    return {PATH: _edited(text, "_asdict_anything", ANYTHING_QUESTION, commented)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "upstream_plus_astuple": lambda sources: sources.upstream(1),
    "only_asdict_half": only_asdict_half,
    "lists_are_atomic": lists_are_atomic,
    "serializer_skipped": serializer_skipped,
    "exact_types_only": exact_types_only,
    "linear_type_scan": linear_type_scan,
    "docstring_only": docstring_only,
}
