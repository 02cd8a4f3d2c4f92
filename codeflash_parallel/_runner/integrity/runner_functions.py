"""Our own code in the process of a candidate: what it was before the project's came, and what it is by now.

Who replaces the function that looks at results can say of them what he likes. What was replaced is told, and
to hide it takes more than one name.
"""

import gc
import hashlib
import json
import signal
import sys
import threading
import time

from .function_identity import FunctionIdentities

#: What the guest asks of the standard library when it looks at results.
_ASKED = (gc, hashlib, json, signal, sys, threading, time)


#: Our own package, whatever it is called where it is installed.
_PACKAGE = __package__.partition(".")[0]


def own_parts():
    """Take all functions of the guest and those that it asks; nothing of the project is loaded yet."""
    parts = FunctionIdentities()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == _PACKAGE:
            parts.take(name, vars(module))
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    parts.take("%s.%s" % (name, key), vars(value))
    for module in _ASKED:
        parts.take(module.__name__, vars(module))
    return parts
