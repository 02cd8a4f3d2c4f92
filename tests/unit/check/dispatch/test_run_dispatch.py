from __future__ import annotations

from codeflash_parallel.check.dispatch.run_dispatch import FallbackReason, told


def test_each_reason_is_told_once_and_points_share_it() -> None:
    whys = [
        FallbackReason(reason="it adds an import"),
        FallbackReason(reason="a thread is started", point="F1"),
        FallbackReason(reason="a thread is started", point="F2"),
        FallbackReason(reason="it adds an import"),
        FallbackReason(reason="nobody has looked", point="F0"),
    ]
    assert told(whys) == "it adds an import; not F2, F1: a thread is started; not F0: nobody has looked"
    assert told([]) == ""
