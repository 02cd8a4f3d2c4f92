"""Forms as servers get them: whole, in pieces, and one with a long preamble and long headers."""

from __future__ import annotations

from werkzeug.sansio.multipart import Epilogue, MultipartDecoder, NeedData

BOUNDARY = b"----form-4711"
FIELD = b'\r\n------form-4711\r\nContent-Disposition: form-data; name="field"\r\n\r\na value\r\n'
LONG = b"\r\n".join(b"X-Note-%d: %s" % (number, b"word " * 12) for number in range(200)) + b"\r\n"
FILE = b'------form-4711\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n'
LINES = b"\r\n" + b"a line of the file\r\n" * 400
END = b"------form-4711--\r\n"
BODIES = [
    (FIELD * 1 + FILE + LINES + END, 1 << 16),
    (b"nothing that counts, " * 600 + b"\r\n" + FILE + LONG + LINES + END, 300),
    (FILE + LONG + LINES + END, 200),
    (FILE + LINES * 3 + END, 700),
]


def _decoded(body, size):
    decoder = MultipartDecoder(BOUNDARY)
    said = []
    for start in range(0, len(body), size):
        decoder.receive_data(body[start : start + size])
        while True:
            event = decoder.next_event()
            if isinstance(event, (Epilogue, NeedData)):
                break
            said.append(repr(event))
    decoder.receive_data(None)
    said.append(repr(decoder.next_event()))
    return said


def main() -> list[list[str]]:
    return [_decoded(body, size) for body, size in BODIES]
