"""The interface of a desk on the loopback address, as clients meet it; and a line that breaks off."""

import asyncio
import select
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dpinfer_desk.desk import Desk
from dpinfer_desk.worker.worker import Worker
from helpers.asgi import HOST

KINDS = ["plain", "whole"]
"""What serves: a server of the standard library, and all of `dpinfer serve`."""


@contextmanager
def served(site, kind="plain", certificate=None):
    """The address of a server of a `calling.Site`; ``certificate`` is a pair of files."""
    serving = _wholly if kind == "whole" else _plainly
    with serving(site, certificate) as port:
        yield f"https://localhost:{port}" if certificate else f"http://127.0.0.1:{port}"


@contextmanager
def worked(site):
    """The desk of a `calling.Site`, worked at."""
    stop = threading.Event()
    thread = threading.Thread(target=lambda: Worker(site.desk, "fork").run(stop=stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Hands each request to the application: what `uvicorn` does, with nothing of ours in between."""

    protocol_version = "HTTP/1.1"
    application = None

    def _answer(self):
        path, _, query = self.path.partition("?")
        scope = {
            "type": "http",
            "method": self.command,
            "path": path,
            "query_string": query.encode(),
            "headers": [
                (key.lower().encode(), (HOST if key.lower() == "host" else value).encode())
                for key, value in self.headers.items()
            ],
        }
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                self.send_response_only(message["status"])
                for key, value in message["headers"]:
                    self.send_header(key.decode(), value.decode())
                self.end_headers()
            else:
                self.wfile.write(message["body"])

        asyncio.run(self.application(scope, receive, send))

    do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815  (the names are the library's)

    def log_message(self, *_):
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Lines that break off are what tests do."""


@contextmanager
def _plainly(site, certificate):
    handler = type("Handler", (_Handler,), {"application": staticmethod(site.app)})
    server = _Server(("127.0.0.1", 0), handler)
    if certificate:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def _wholly(site, certificate):
    """Pages and interface, of a desk that may read neither data nor ledgers."""
    import uvicorn  # noqa: PLC0415

    from dpinfer_desk.web.network import ServerConfig, app_of  # noqa: PLC0415

    site.desk.publish("visits")
    desk = Desk.open(site.desk.folder.path, clock=site.desk.clock, public=True)
    more = {}
    if certificate:
        more = {"ssl_certfile": certificate[0], "ssl_keyfile": certificate[1]}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            app_of(desk, ServerConfig(port=port)),
            log_config=None,  # the usual one closes all handlers of this process, and absl's closes its stream
            log_level="critical",
            access_log=False,
            http="h11",
            ws="none",
            lifespan="off",
            **more,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield port
        finally:
            server.should_exit = True
            thread.join(10)


def certificate_in(folder):
    """A certificate of its own authority, for the name localhost alone: its file and that of its key."""
    files = [str(folder / "certificate.pem"), str(folder / "key.pem")]
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-out", files[0], "-keyout", files[1]),
        ],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return files


class Breaking:
    """A line to a server that breaks off as planned: one word per connection, "before" anything is
    handed on, "after" the server has it all, "middle" of what comes back; then it is whole.
    """

    def __init__(self, address, plan):
        self._server = address.removeprefix("http://").partition(":")
        self._plan = list(plan)
        self._lock = threading.Lock()
        self.lines = 0

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        threading.Thread(target=self._listen, daemon=True).start()
        port = self._listener.getsockname()[1]
        host, _, known = self._server
        self._names = (f"Host: {host}:{port}".encode(), f"Host: {host}:{known}".encode())
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *_):
        self._listener.close()

    def _listen(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.lines += 1
                word = self._plan.pop(0) if self._plan else ""
            threading.Thread(target=self._carry, args=(connection, word), daemon=True).start()

    def _carry(self, connection, word):
        host, _, port = self._server
        with connection, socket.create_connection((host, int(port)), 300) as server:
            if word == "before":
                return
            heard = 0
            while True:
                ready, _, _ = select.select([connection, server], [], [], 300)
                if not ready:
                    return
                if connection in ready:
                    piece = connection.recv(65536)
                    if not piece:
                        return
                    server.sendall(piece.replace(*self._names))
                if server in ready:
                    piece = server.recv(65536)
                    if word == "after" or not piece:
                        return
                    if word == "middle":
                        connection.sendall(piece[: len(piece) // 2])
                        return
                    heard += len(piece)
                    connection.sendall(piece)
