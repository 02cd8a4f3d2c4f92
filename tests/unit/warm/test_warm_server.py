"""The first message of a template."""

from __future__ import annotations

import pytest

from codeflash_parallel.process.launcher.child_connection import ProtocolError
from codeflash_parallel.result.runtime_protocols import TemplateReady
from codeflash_parallel.warm.warm_server import _readiness


def test_a_template_says_where_it_stands() -> None:
    message = {"t": "ready", "point": "imported", "unfit": "", "rss_bytes": 5}
    assert _readiness(message) == TemplateReady(point="imported", rss_bytes=5)


@pytest.mark.parametrize("message", [{}, {"t": "ready"}, {"t": "ready", "point": 1, "unfit": ""}])
def test_any_other_message_is_an_error(message: dict[str, object]) -> None:
    with pytest.raises(ProtocolError, match="it begins with"):
        _readiness(message)
