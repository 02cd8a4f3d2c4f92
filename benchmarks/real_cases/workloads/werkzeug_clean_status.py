"""Statuses of an application's responses: mostly codes, some from `http`, some with words of their own."""

from __future__ import annotations

from http import HTTPStatus

from werkzeug.sansio.response import Response

RESPONSE = Response()
STATUSES = [
    *(200, 200, 200, 304, 404, 201, 200, 302, 500, 204),
    *(HTTPStatus.OK, HTTPStatus.NOT_FOUND, 599, "200 OK", "404 NOT FOUND", "418", "503 Busy", "broken"),
]


def main() -> list[tuple[str, int]]:
    clean = RESPONSE._clean_status  # noqa: SLF001 - the target
    return [clean(status) for status in STATUSES * 60]
