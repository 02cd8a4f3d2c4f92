from __future__ import annotations

from codeflash_parallel.check.dispatch.run_dispatch import FallbackReason, told


def test_each_reason_is_told_once_and_points_share_it() -> None:
    whys = [
        FallbackReason(reason="it adds an import"),
        FallbackReason(reason="a thread is started", point="collected"),
        FallbackReason(reason="a thread is started", point="imported"),
        FallbackReason(reason="it adds an import"),
        FallbackReason(reason="nobody has looked", point="imported"),
    ]
    assert (
        told(whys)
        == "it adds an import; not collected, imported: a thread is started; not imported: nobody has looked"
    )
    assert told([]) == ""
