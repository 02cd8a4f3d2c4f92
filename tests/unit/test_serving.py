from __future__ import annotations

from codeflash_parallel.behavior.serving import Why, told


def test_each_reason_is_told_once_and_points_share_it() -> None:
    whys = [
        Why(reason="it adds an import"),
        Why(reason="a thread is started", point="F1"),
        Why(reason="a thread is started", point="F2"),
        Why(reason="it adds an import"),
        Why(reason="nobody has looked", point="F0"),
    ]
    assert told(whys) == "it adds an import; not F2, F1: a thread is started; not F0: nobody has looked"
    assert told([]) == ""
