"""What a server and an application tell each other, the socket it comes by, and how much of a request is read."""

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST = 64 * 1024
"""Bytes of a body or of an address that are kept at most."""
READING = 10.0
"""Seconds in which a body has to be here."""


def tcp_socket(family: socket.AddressFamily) -> socket.socket:
    """A socket to listen at.  It names its protocol: to connections of one that does not, asyncio
    leaves Nagle's algorithm, and the second part of an answer waits 40 ms for a receipt of the first.
    """
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return listener
