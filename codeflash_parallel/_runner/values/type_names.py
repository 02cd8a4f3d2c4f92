"""The name of a type, as the code of a project cannot forge it."""

import builtins
import sys
import types


def type_name(cls):
    """Return the dotted name of a type, without running a metaclass' code.

    What calls itself by the name of another type is marked: a name is no identity.
    """
    module = type.__getattribute__(cls, "__module__")
    qualname = type.__dict__["__qualname__"].__get__(cls)
    name = "%s.%s" % (module if isinstance(module, str) else "?", qualname)
    return name + " (another type of that name)" if _is_forged(cls, module, qualname) else name


def _is_forged(cls, module, qualname):
    if module == "builtins":
        return _BUILTINS.get(qualname, cls) is not cls
    found = sys.modules.get(module) if isinstance(module, str) else None
    for part in qualname.split("."):
        found = getattr(found, "__dict__", _NOTHING).get(part) if found is not None else None
    return isinstance(found, type) and found is not cls


#: As they are before any code of the project runs.
_BUILTINS = {name: value for name, value in vars(builtins).items() if isinstance(value, type)}
_NOTHING = types.MappingProxyType({})
