"""One audit hook for all who listen: hooks cannot be removed, and each slows down every `id()` of a test."""

import sys

_LISTENERS = {}
_INSTALLED = []


def listen(events, tell):
    """Have `tell` called with name and arguments of audit events; the frame that raised one is two up."""
    if not _INSTALLED:
        _INSTALLED.append(True)
        sys.addaudithook(_hook)
    for event in events:
        _LISTENERS[event] = [*_LISTENERS.get(event, ()), tell]


def stop(tell):
    """Have it called no more."""
    for event, listeners in list(_LISTENERS.items()):
        _LISTENERS[event] = [listener for listener in listeners if listener != tell]
        if not _LISTENERS[event]:
            del _LISTENERS[event]


def _hook(event, args):
    if event in _LISTENERS:
        for tell in _LISTENERS[event]:
            tell(event, args)
