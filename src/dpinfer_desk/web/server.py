"""The page of a desk on the loopback address, with its worker: what `dpinfer desk open` starts."""

import os
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import uvicorn

from dpinfer.errors import DpinferError, InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.web.access import Access
from dpinfer_desk.web.app import application
from dpinfer_desk.web.messages import LARGEST, tcp_socket
from dpinfer_desk.web.visit import Site
from dpinfer_desk.worker.forecasts import Forecasts
from dpinfer_desk.worker.worker import Worker

HOST = "127.0.0.1"
PORT = 8765
"""Where the page is, unless another port is asked for."""
_LATER = 10  # ports after it that are tried
_LEAVE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">
<title>The desk</title></head><body><p><a href="{address}">Open the desk</a></p></body></html>
"""


def serve(desk: Desk, port: int | None, browser: bool, announce: Callable[[str], None]) -> None:
    """Serve the page until it is interrupted.  ``announce`` is told the address, with its token."""
    with _listening(port) as listener:
        number = listener.getsockname()[1]
        access = Access((f"{HOST}:{number}", f"localhost:{number}"), desk.who)
        with _Working(desk) as working, _leaf(access.address) as leaf:
            site = Site(desk, Forecasts(desk, rate=None))
            app = application(site, access, working.trouble)
            config = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,  # addresses hold questions, and one the token
                server_header=False,
                h11_max_incomplete_event_size=LARGEST,
                timeout_graceful_shutdown=2,
                http="h11",
                ws="none",
                loop="asyncio",
            )
            announce(access.address)
            if browser:
                webbrowser.open(leaf.as_uri())
            uvicorn.Server(config).run(sockets=[listener])


class _Working:
    """The worker of the desk in a thread, from the beginning of a block to its end."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._stop = threading.Event()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="worker")

    def __enter__(self) -> "_Working":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def trouble(self) -> str:
        """Why nothing is fitted here; empty where the worker works."""
        return self._trouble

    def _run(self) -> None:
        try:
            Worker(self._desk).run(stop=self._stop)
        except DpinferError as fault:
            self._trouble = str(fault)
        except Exception as fault:
            # its message could hold data
            self._trouble = (
                f"the worker has stopped ({type(fault).__name__}): close the desk and open it again"
            )


@contextmanager
def _listening(port: int | None) -> Iterator[socket.socket]:
    """A socket on the loopback address: on the port that is asked for, or on a free one."""
    ports = [port] if port is not None else [*range(PORT, PORT + _LATER), 0]
    for number in ports:
        listener = tcp_socket(socket.AF_INET)
        try:
            listener.bind((HOST, number))
            listener.listen()  # a browser that is told the address may come before the server runs
        except OSError:
            listener.close()
            continue
        with listener:
            yield listener
        return
    raise InputError(f"port {port} of {HOST} is taken or not allowed: give another one with --port")


@contextmanager
def _leaf(address: str) -> Iterator[Path]:
    """A file that leads to an address and that nobody else can read: the command line of a browser,
    which all users of a machine can see, names the file and not the token.
    """
    with tempfile.TemporaryDirectory(prefix="dpinfer-") as folder:
        leaf = Path(folder) / "desk.html"
        descriptor = os.open(leaf, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_LEAVE.format(address=escape(address)))
        yield leaf
