"""A server of the desk on a socket: requests that could be read in two ways, and some that are too long."""

import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import uvicorn

from dpinfer_desk.web import sockets
from dpinfer_desk.web.security import BODY_LIMIT, DISCARDED, ConnectionPolicy, SecurityMiddleware
from dpinfer_desk.web.sockets import HEADER_LIMIT, DeadlineProtocol, listening_socket

HOST = "x.example"
BOTH = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"


async def app(_scope, _receive, send):
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def port():
    anybody = SimpleNamespace(authenticate=lambda *_: object())
    config = uvicorn.Config(
        SecurityMiddleware(app, ConnectionPolicy((HOST,)), anybody),
        http=DeadlineProtocol,
        h11_max_incomplete_event_size=HEADER_LIMIT,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="critical",
        timeout_keep_alive=0.2,
    )
    server = uvicorn.Server(config)
    with pytest.MonkeyPatch.context() as patch, listening_socket("127.0.0.1", 0) as listener:
        patch.setattr(sockets, "DISCARDING", 60.0)  # seconds for a client on a busy machine
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


@contextmanager
def connected(port):
    with socket.create_connection(("127.0.0.1", port), 60) as link:
        yield link


def answer(port, head, body=b"", path="/"):
    """All that comes back until the server closes."""
    text = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n{head}\r\n".encode() + body
    return sent(port, text)


def sent(port, text):
    with connected(port) as link:
        link.sendall(text)
        found = b""
        while piece := link.recv(65536):
            found += piece
    return found


def test_two_lengths_are_refused_and_end_the_connection(port):
    """A proxy that goes by Content-Length takes what follows the last chunk for a request of its own."""
    hidden = f"GET /hidden HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
    one = answer(port, "Transfer-Encoding: chunked\r\n", b"0\r\n\r\n" + hidden)
    assert one.count(b" 200 ") == 2  # one request after the other is fine
    for head in (BOTH, BOTH.replace("4", "0"), BOTH.replace("chunked", "Chunked")):
        found = answer(port, head, b"0\r\n\r\n" + hidden)
        assert found.startswith(b"HTTP/1.1 400 ")
        assert found.count(b"HTTP/1.1") == 1
        assert b"connection: close\r\n" in found
        assert b"not both" in found


@pytest.mark.parametrize("length", [70_000, 2 * HEADER_LIMIT, 6 * HEADER_LIMIT])
def test_an_address_that_is_too_long_is_called_so(port, length):
    """A server that is busy reads 256 kB at once: a request that is complete by then is refused as one,
    and a longer one before its end is known.
    """
    assert HEADER_LIMIT + 2**18 < 6 * HEADER_LIMIT < DISCARDED
    for path in ("/" + "x" * length, "/?" + "x" * length):
        found = answer(port, "", path=path)
        assert found.startswith(b"HTTP/1.1 414 ")
        assert b"connection: close\r\n" in found or length <= 2 * HEADER_LIMIT
        assert b"content-security-policy: default-src 'none';" in found
        assert b"too long" in found
        assert b"xxx" not in found


def test_an_address_without_end_ends_the_connection(port):
    found = sent(port, b"GET /" + b"x" * HEADER_LIMIT)
    assert found.startswith(b"HTTP/1.1 414 ")
    assert b"connection: close\r\n" in found


def test_other_requests_that_are_none(port):
    assert answer(port, "", path="/" + "x" * (BODY_LIMIT - 1)).startswith(b"HTTP/1.1 200 ")
    assert answer(port, f"X-A: {'x' * 4 * HEADER_LIMIT}\r\n").startswith(b"HTTP/1.1 431 ")
    with connected(port) as link:
        link.sendall(b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")  # TLS where none is spoken
        assert link.recv(1000).startswith(b"HTTP/1.1 400 ")
