from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.process.wire import Frames, pack

texts = st.text(st.characters(exclude_categories=()))  # lone surrogates, too: paths that are not UTF-8
messages = st.lists(st.dictionaries(texts, texts | st.integers() | st.lists(texts)), max_size=5)


@given(messages, st.lists(st.integers(1, 50)))
def test_messages_survive_any_cutting(sent, cuts):
    stream, frames, received = b"".join(map(pack, sent)), Frames(), []
    for cut in cuts:
        received += frames.feed(stream[:cut])
        stream = stream[cut:]
    assert received + frames.feed(stream) == sent
