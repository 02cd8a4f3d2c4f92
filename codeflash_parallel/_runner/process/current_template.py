"""The server of this process, if it is a template. Apart from `serving`, which other guests need not load."""

_SERVERS = []


def server():
    """Return the server; None when this process is no template (any more)."""
    return _SERVERS[0] if _SERVERS else None


def set_server(server):
    """Make this process a template, or with None no longer one."""
    _SERVERS[:] = [] if server is None else [server]


def on_fork(renew):
    """Have something called in each fork of a template, once the spec is the fork's own."""
    if _SERVERS:
        _SERVERS[0].on_fork(renew)
