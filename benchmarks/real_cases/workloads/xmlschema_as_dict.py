"""Views of a schema's globals by namespace: 400 names of four namespaces, and some of none."""

from __future__ import annotations

from xmlschema.namespaces import NamespaceView

NAMESPACES = (
    "http://www.w3.org/2001/XMLSchema",
    "http://example.test/orders",
    "http://example.test/orders/types",
    "urn:example:address:v2",
)
NAMES = {f"{{{NAMESPACES[at % 4]}}}name{at}": at for at in range(400)}
NAMES.update((f"local{at}", at) for at in range(40))
VIEWS = [NamespaceView(NAMES, namespace) for namespace in (*NAMESPACES, "", "urn:nobody")]


def main() -> list[dict[str, int]]:
    """Return the views as dictionaries, by local and by full names."""
    return [view.as_dict(full) for view in VIEWS for full in (False, True)]
