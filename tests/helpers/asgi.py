"""One request to an ASGI application, called in this process: no network."""

import asyncio
from dataclasses import dataclass

HOST = "127.0.0.1:8766"
"""The name under which applications of tests answer."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict
    content: bytes

    @property
    def text(self):
        return self.content.decode()


def request(app, method, path, headers=(), body=b"", messages=None, client="127.0.0.1"):
    """The reply to one request; ``messages`` are those that arrive, one after the other, for ever then.

    A pair of headers for "host" replaces the one that is sent otherwise.
    """
    path, _, query = path.partition("?")
    sent = [(key.lower().encode(), value.encode()) for key, value in headers]
    if not any(key == b"host" for key, _ in sent):
        sent.append((b"host", HOST.encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": sent,
        "client": (client, 1),
    }
    if messages is None:
        messages = [{"type": "http.request", "body": body, "more_body": False}]
    replied = []

    async def receive():
        if not messages:
            await asyncio.sleep(3600)
        return messages.pop(0)

    async def send(message):
        replied.append(message)

    asyncio.run(app(scope, receive, send))
    start, *pieces = replied
    headers = {key.decode(): value.decode() for key, value in start["headers"]}
    return Reply(start["status"], headers, b"".join(piece["body"] for piece in pieces))
