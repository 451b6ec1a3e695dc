"""The socket that a server of the desk listens at, and how its connections begin and end."""

import asyncio
import http
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpinfer.errors import InputError
from dpinfer_desk.web.security import (
    ADDRESS_TOO_LONG,
    BODY_LIMIT,
    DEADLINE,
    DISCARDED,
    DISCARDING,
    PAGE_HEADERS,
)

HEADER_LIMIT = 2 * BODY_LIMIT
"""Bytes of a request before its body: an address of `BODY_LIMIT` bytes, and headers as long."""
_BACKLOG = 1000  # connections that wait until they are accepted
_HEADERS_TOO_LONG = "The headers of this request are too long: send less with them."
_NO_REQUEST = "This is no request by HTTP/1.1: check the program that sent it."


def listening_socket(host: str, *ports: int) -> socket.socket:
    """Return a socket that listens at an address, on the first of some ports that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        # It names its protocol: to connections of one that does not, asyncio leaves Nagle's algorithm,
        # and the second part of an answer waits 40 ms for a receipt of the first.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError):
            listener.close()
            continue
        return listener
    raise InputError(
        f"port {ports[0]} of {host} is taken or not allowed: give another one with --port"
    )


class DeadlineProtocol(H11Protocol):  # type: ignore[misc]
    """Header timeout, answers to what is no request, and close after an early response; uvicorn has
    none of them.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._begun = False
        self._refused = False
        self._left = DISCARDED
        self._late = self.loop.call_later(DEADLINE, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Start the clock of a further request, and stop it once its headers are here."""
        if self._refused:
            self._discard(data)
            return
        if self._begun and self._done():
            self._begun = False
            self._late = self.loop.call_later(DEADLINE, self._give_up)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._begun = True
            self._late.cancel()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's own words)
        """Answer what cannot be parsed as a request, and say whether it was too long."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer has begun
            self._give_up()
            return
        status, sentence = self._refusal()
        content = sentence.encode()
        headers = {
            **PAGE_HEADERS,
            "content-type": "text/plain; charset=utf-8",
            "content-length": str(len(content)),
            "connection": "close",
        }
        events = (
            h11.Response(
                status_code=status,
                headers=list(headers.items()),
                reason=http.HTTPStatus(status).phrase.encode(),
            ),
            h11.Data(data=content),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event))
        # A client that is still sending when the connection ends may lose the answer.
        self._refused = True
        self._late.cancel()
        self._late = self.loop.call_later(DISCARDING, self._give_up)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def on_response_complete(self) -> None:
        """Close where more of the request would come."""
        if self.cycle.more_body:
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        self._late.cancel()
        super().connection_lost(exc)

    def _refusal(self) -> tuple[int, str]:
        """Return status and sentence for what is no request."""
        unread, _ = self.conn.trailing_data
        if len(unread) <= HEADER_LIMIT:
            return 400, _NO_REQUEST
        if b"\n" not in unread[:HEADER_LIMIT]:  # all of it is the first line, which has the address
            return 414, ADDRESS_TOO_LONG
        return 431, _HEADERS_TOO_LONG

    def _discard(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._give_up()

    def _done(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        self.transport.close()
