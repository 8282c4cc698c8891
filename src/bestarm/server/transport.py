"""The transport of a connection: parts of an answer are sent together."""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedTransport:
    """A transport that sends together what is written in one go: an answer's head and body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self.is_closing = transport.is_closing  # asked for several times by every request
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send a part, together with those that follow at once."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def write_whole(self, data: bytes) -> None:
        """Send at once what nothing follows soon."""
        if self._parts:
            self.write(data)
        else:
            self._transport.write(data)

    def write_eof(self) -> None:
        """Send nothing more."""
        self._send()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what is left, and close the connection."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._parts and not self._transport.is_closing():
            self._transport.write(b"".join(self._parts))
        self._parts.clear()
