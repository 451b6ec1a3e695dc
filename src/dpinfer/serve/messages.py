"""What a server and an application tell each other, and how much of a request is read, for how long."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST = 64 * 1024
"""Bytes of a body or of an address that are read at most."""
READING = 10.0
"""Seconds in which a body has to be here."""
