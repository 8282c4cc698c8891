"""Requests as they go over the wire, and what is answered to them."""

from __future__ import annotations

import json
from typing import Any

from served import Served

from bestarm.server.tokens import Role

__all__ = ["HEAD", "answer", "request"]

HEAD = b"GET /api/v1/experiments HTTP/1.1\r\nHost: localhost\r\n"


def answer(raw: bytes) -> tuple[int, dict[str, Any]]:
    """Status and error of an answer as it came over the wire."""
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower(), raw
    status = int(head.split(b" ", 2)[1])
    error: dict[str, Any] = json.loads(body)["error"]
    assert set(error) == {"kind", "message", "field", "value", "remedy"}
    return status, error


def request(served: Served, *lines: str, path: str = "/api/v1/experiments/offer/tell") -> bytes:
    token = served.token(Role.TELL)
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}"]
    return "\r\n".join([*head, *lines, "", ""]).encode()
