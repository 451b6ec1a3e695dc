"""The page of a desk on the loopback address, with its worker: what `dpinfer desk open` starts."""

import os
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import uvicorn

from dpinfer.errors import DpinferError
from dpinfer_desk.desk import Desk
from dpinfer_desk.web.app import application
from dpinfer_desk.web.authentication import LoopbackBackend
from dpinfer_desk.web.requests import Services
from dpinfer_desk.web.security import ConnectionPolicy
from dpinfer_desk.web.sockets import HEADER_LIMIT, DeadlineProtocol, listening_socket
from dpinfer_desk.worker.forecasts import Forecasts
from dpinfer_desk.worker.worker import Worker

HOST = "127.0.0.1"
PORT = 8765
"""Where the page is, unless another port is asked for."""
_PORTS = 10  # those that are tried, from that one on
_REDIRECT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={address}">
<title>The desk</title></head><body><p><a href="{address}">Open the desk</a></p></body></html>
"""


def serve(desk: Desk, port: int | None, browser: bool, announce: Callable[[str], None]) -> None:
    """Serve the page until it is interrupted.  ``announce`` is called with the address and its token."""
    ports = [port] if port is not None else [*range(PORT, PORT + _PORTS), 0]
    with listening_socket(HOST, *ports) as listener:
        number = listener.getsockname()[1]
        policy = ConnectionPolicy((f"{HOST}:{number}", f"localhost:{number}"))
        backend = LoopbackBackend(desk.who)
        address = backend.address(policy.hosts[0])
        with _WorkerThread(desk) as worker, _redirecting_file(address) as file:
            services = Services(
                desk,
                Forecasts(desk, rate=None),
                lambda: worker.fault,
                backend.cookie,
                home=backend.home,
            )
            app = application(services, policy, backend)
            config = uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,  # addresses hold questions, and one the token
                server_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=HEADER_LIMIT,
                timeout_graceful_shutdown=2,
                http=DeadlineProtocol,
                ws="none",
                loop="asyncio",
            )
            announce(address)
            if browser:
                webbrowser.open(file.as_uri())
            uvicorn.Server(config).run(sockets=[listener])


class _WorkerThread:
    """The worker of the desk in a thread, while a block runs.

    ``fault`` says why nothing is fitted any more; it is empty while the worker works.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._stop = threading.Event()
        self.fault = ""
        self._thread = threading.Thread(target=self._run, name="worker")

    def __enter__(self) -> "_WorkerThread":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            Worker(self._desk).run(stop=self._stop)
        except DpinferError as fault:
            self.fault = str(fault)
        except Exception as fault:
            # its message could hold data
            self.fault = (
                f"the worker has stopped ({type(fault).__name__}): close the desk and open it again"
            )


@contextmanager
def _redirecting_file(address: str) -> Iterator[Path]:
    """Make a file that leads to an address and that nobody else can read.

    The command line of a browser, which all users of a machine can see, names the file and not the token.
    """
    with tempfile.TemporaryDirectory(prefix="dpinfer-") as folder:
        path = Path(folder) / "desk.html"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(_REDIRECT.format(address=escape(address)))
        yield path
