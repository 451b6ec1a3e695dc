"""No secret is in any file of a desk or in what its processes say, whatever happens."""

import re

from dpinfer_desk.desk import Desk
from helpers.servers import PASSWORD, Client, peopled, served
from helpers.visits import made

TYPED = "a password with a typing mistake"


def test_no_secret_in_a_file_or_log(tmp_path):
    """After signing in, wrong passwords, tokens, invitations, faults and a kill: every file, and both
    streams of both processes.
    """
    folder = peopled(made(tmp_path))
    with served(folder) as site:
        mine = Client(site, "a.meier")
        boss = Client(site, "boss")
        Client(site).sign_in("a.meier", TYPED)
        fields = {"name": "laptop", "scope": "read", "days": "1"}
        token = re.search(r"dpinfer-[\w-]{43}", mine.post("/tokens", fields).text)[0]
        page = boss.post("/accounts", {"person": "guest", "role": "analyst"}).text
        invitation = re.search(r'<code class="secret" id="link">[^<]*/join#([\w-]{43})<', page)[1]
        chosen = "some words of a guest"
        Client(site).post("/join", {"invitation": invitation, "password": chosen, "again": chosen})
        for headers in ({"authorization": f"Bearer {token}"}, {"cookie": f"desk={token}"}):
            mine.sent("GET", "/t/visits", headers)
            mine.sent("GET", "/api/v1/tables", headers)
        mine.sent("GET", f"/q/{token}")
        mine.sent("POST", "/sign-in", {"origin": site.origin}, b"\xff\xfe")
        mine.post("/t/visits/questions", {"formula": "visit ~ age", "rho": "0.1", "key": "k"})
        secrets = [PASSWORD, TYPED, chosen, token, invitation, mine.word(), boss.word()]
        secrets += [one.cookie.partition("=")[2] for one in (mine, boss)]
        said = site.said.read_bytes()
    desk = Desk.open(folder)
    held = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    held["streams"] = said
    held["journal"] = desk.export_journal().encode()
    assert len(held) > 8
    for secret in secrets:
        assert len(secret) > 15
        for path, content in held.items():
            for part in (secret, secret[:20], secret[-20:]):
                assert part.encode() not in content, path
    assert b"laptop" in held[desk.folder.database]  # the test has power
