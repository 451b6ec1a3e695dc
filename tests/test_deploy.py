"""The files of deploy/: units with their scores, the container's two services, and proxies."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[1] / "deploy"
SCORES = {"dpinfer-worker": 1.0, "dpinfer-web": 2.5}


def settings(name):
    """The lines of a unit, as keys with their values."""
    lines = (DEPLOY / f"{name}.service").read_text(encoding="utf-8").splitlines()
    found = {}
    for line in lines:
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize("name", SCORES)
def test_the_units_are_closed(name):
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(DEPLOY / f"{name}.service")],
        capture_output=True,
        text=True,
        check=True,
        env={"SYSTEMD_COLORS": "0", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    score = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)[1])
    assert score <= SCORES[name]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_knows_every_line_of_the_units(tmp_path):
    """Whatever it does not know it only complains about: nothing may be said."""
    units = []
    for name in SCORES:
        text = (DEPLOY / f"{name}.service").read_text(encoding="utf-8")
        assert text.count("/opt/dpinfer/bin/dpinfer") == 1
        units.append(tmp_path / f"{name}.service")
        units[-1].write_text(
            text.replace("/opt/dpinfer/bin/dpinfer", "/bin/true"), encoding="utf-8"
        )
    for wrong in ("", "ProtectNothing=yes\n"):
        units[0].write_text(f"{units[0].read_text()}\n[Service]\n{wrong}", encoding="utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *map(str, units)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "ProtectNothing" in done.stderr) == (0, bool(wrong))
        assert done.stderr == "" or wrong


def test_the_worker_has_no_network_and_the_pages_no_data():
    worker = settings("dpinfer-worker")
    web = settings("dpinfer-web")
    assert worker["PrivateNetwork"] == ["yes"]
    assert worker["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert "--worker-only" in worker["ExecStart"][0]
    assert web["ReadWritePaths"] == ["/var/lib/dpinfer/desk/shared"]
    assert "--web-only --behind-proxy 127.0.0.1" in web["ExecStart"][0]
    assert worker["User"] != web["User"]
    assert worker["Group"] == web["Group"]
    for unit in (worker, web):
        assert unit["NoNewPrivileges"] == ["yes"]
        assert unit["CapabilityBoundingSet"] == [""]
        assert unit["UMask"] == ["0027"]


def test_the_containers_are_three_services():
    text = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
    services, _, networks = text.partition("\nnetworks:\n")
    worker, web, proxy = re.split(r"\n  (?:web|proxy):\n", services.partition("  worker:\n")[2])
    assert "network_mode: none" in worker
    assert ":/data:ro" in worker
    assert "data" not in web.replace("dpinfer", "")
    assert "ledgers" not in web
    assert "ports" not in web
    assert "networks: [pages]" in web
    assert "  pages:\n    internal: true\n" in networks  # from there nothing can be called
    address = re.search(r"ipv4_address: (\S+)", proxy)[1]
    assert f'"--behind-proxy", "{address}"' in web
    assert "UPSTREAM: web:8766" in proxy
    for service in (worker, web):
        for line in ("read_only: true", "cap_drop: [ALL]", "no-new-privileges:true"):
            assert line in service
    users = re.findall(r'user: "(\d+):(\d+)"', text)
    assert users[0][0] != users[1][0]
    assert users[0][1] == users[1][1]


def test_the_proxies_say_what_the_connection_is():
    """What a client says of where it comes from is replaced, and never added to."""
    nginx = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in nginx
    assert "proxy_set_header X-Forwarded-Proto $scheme;" in nginx
    assert "proxy_add_x_forwarded_for" not in nginx
    assert "access_log off" in nginx
    assert "reverse_proxy {$UPSTREAM:127.0.0.1:8766}" in (DEPLOY / "Caddyfile").read_text(
        encoding="utf-8"
    )
