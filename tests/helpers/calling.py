"""A small desk with accounts and its application, called in this process: no network."""

import json

from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.app import application
from dpinfer_desk.web.authentication import SessionBackend, SessionCookie
from dpinfer_desk.web.requests import Services
from dpinfer_desk.web.security import ConnectionPolicy
from dpinfer_desk.worker.forecasts import Forecasts
from helpers import asgi
from helpers.visits import made

PEOPLE = {
    "a.meier": "analyst",
    "b.okafor": "analyst",
    "c.outside": "analyst",
    "s.berg": "steward",
    "t.audit": "auditor",
}
QUESTION = {"formula": "visit ~ age + health", "rho": 0.1}
KEY = "11111111-2222-3333-4444-555555555555"


class Site:
    """A desk of `visits.made` with an account and a token for everybody; c.outside has no allowance."""

    def __init__(self, folder, policy=None, total=None, clock=None):
        path = made(folder, policy, total)
        options = {} if clock is None else {"clock": clock}
        self.desk = Desk.open(path, who="steward", **options)
        self.accounts = Accounts(self.desk.register)
        known = {person.name for person in self.desk.persons()}
        self.tokens = {}
        for person, role in PEOPLE.items():
            if person not in known:
                self.desk.add_person(person)
            self.accounts.open(person, role, "steward")
            self.tokens[person] = self.token(person)
        cookie = SessionCookie.of_server(secure=False)
        self.services = Services(self.desk, Forecasts(self.desk), lambda: "", cookie, self.accounts)
        backend = SessionBackend(self.accounts, cookie)
        self.app = application(self.services, ConnectionPolicy((asgi.HOST,)), backend)

    def token(self, person, scopes=("read", "ask"), days=1):
        return self.accounts.make_token(person, scopes, days, "test")[1]

    def reply(self, method, path, by="", body=None, token=None, headers=()):
        """What comes back; ``by`` calls with the token of a person."""
        sent = list(headers)
        secret = self.tokens[by] if by else token
        if secret is not None:
            sent.append(("authorization", f"Bearer {secret}"))
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        if not any(key == "content-type" for key, _ in sent):
            sent.append(("content-type", "application/json"))
        return asgi.request(self.app, method, f"/api/v1{path}", sent, content)

    def call(self, method, path, by="", body=None, **more):
        """The status and the document that come back."""
        reply = self.reply(method, path, by, body, **more)
        kind = reply.headers.get("content-type", "")
        content = json.loads(reply.content) if kind == "application/json" else reply.content
        return reply.status, content

    def seen(self, path, status=200, by="a.meier"):
        """A page as a person who has signed in sees it."""
        session = self.accounts.open_session(by)
        reply = asgi.request(self.app, "GET", path, [("cookie", f"desk={session}")])
        assert reply.status == status, (path, reply.status)
        return reply.content.decode()

    def ask(self, key=KEY, by="a.meier", question=None, options=""):
        path = f"/tables/visits/questions/{key}{options}"
        return self.call("PUT", path, by, question or QUESTION)
