"""Many requests at once, to the application itself: what they may keep waiting."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from dpinfer_desk.desk import Desk
from dpinfer_desk.store import accounts as module
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.network import ServerConfig, app_of
from helpers.servers import FORM, PASSWORD
from helpers.visits import made

CONFIG = ServerConfig(port=8766)
HOST = b"127.0.0.1:8766"


async def called(app, method, path, fields=None):
    """Status and headers of the answer to one request."""
    waiting = [{"type": "http.request", "body": urlencode(fields or {}).encode()}]
    said = []

    async def receive():
        return waiting.pop()

    async def send(message):
        said.append(message)

    headers = [(b"host", HOST), (b"origin", b"http://" + HOST), (b"content-type", FORM.encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return said[0]["status"], dict(said[0]["headers"])


def test_a_flood_of_passwords_keeps_nobody_waiting(tmp_path, monkeypatch):
    """While one password is hashed and eight wait, the others are turned away at once, and pages are
    shown; by an invitation that is good, which counts no tries.
    """
    folder = made(tmp_path)
    steward = Desk.open(folder, "steward")
    steward.folder.share()
    accounts = Accounts(steward.register)
    accounts.open("a.meier", "analyst", "steward")
    secret = accounts.invite("a.meier", "steward")
    held = threading.Event()
    monkeypatch.setattr(module, "_password_hash", lambda *_: held.wait() and b"")
    app = app_of(Desk.open(folder, public=True), CONFIG)
    fields = {"invitation": secret, "password": PASSWORD, "again": PASSWORD}

    async def flood():
        asked = [asyncio.create_task(called(app, "POST", "/join", fields)) for _ in range(58)]
        try:
            async with asyncio.timeout(300):
                while sum(task.done() for task in asked) < 49:
                    await asyncio.sleep(0.01)
                assert (await called(app, "GET", "/health"))[0] == 200
                assert (await called(app, "GET", "/sign-in"))[0] == 200
        finally:
            early = [task.result() for task in asked if task.done()]
            held.set()
            late = await asyncio.gather(*asked)
        assert [status for status, _ in early] == [429] * 49
        assert {headers[b"retry-after"] for _, headers in early} == {b"60"}
        assert sorted(status for status, _ in late) == [303] + [400] * 8 + [429] * 49

    with ThreadPoolExecutor(1) as pool:  # a browser of another test may have a loop in this thread
        pool.submit(asyncio.run, flood()).result()
