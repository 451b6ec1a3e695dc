"""`dpinfer serve`: a desk on a network, for analysts who sign in: make it, add persons, run, check, back up."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dpinfer.cli import screen
from dpinfer.cli.screen import AsJson, Quiet, Screen
from dpinfer.errors import InputError
from dpinfer_desk.cli import desk as desk_commands

if TYPE_CHECKING:
    from dpinfer_desk.desk import Desk
    from dpinfer_desk.store.accounts import Accounts

app = typer.Typer(
    help="It has two processes: the one with the network cannot read the data, and the one with the data has no "
    "network.",
    add_completion=False,
    rich_markup_mode="rich",
)
person_app = typer.Typer(help="Persons who sign in: stewards, analysts, auditors.")
app.add_typer(desk_commands.table_app, name="table")
app.add_typer(person_app, name="person")

_Folder = Annotated[Path, typer.Argument(help="The folder of the desk.", metavar="DIR")]
_Person = Annotated[str, typer.Argument(help="The name of the person.", metavar="PERSON")]
_Group = Annotated[
    str,
    typer.Option(
        help="The group of the user of the process with the network, if that is another user."
    ),
]
_Host = Annotated[str, typer.Option(help="The address to listen on.")]
_Names = Annotated[
    list[str] | None,
    typer.Option("--name", help="A host name of the server, such as stats.example.org."),
]
_Proxies = Annotated[
    list[str] | None,
    typer.Option("--behind-proxy", help="The address of a proxy that speaks TLS and is trusted."),
]
_IdentityHeader = Annotated[
    str,
    typer.Option(
        "--identity-header",
        help="The header in which the proxy names who has signed in there; without passwords here.",
    ),
]
_Certificate = Annotated[Path | None, typer.Option(help="For TLS of its own, with --key.")]
_Key = Annotated[Path | None, typer.Option(help="The private key of the certificate.")]
_Address = Annotated[
    str,
    typer.Option(
        "--address",
        help="The address of the desk, such as https://stats.example.org: the invitation is then a link.",
        metavar="URL",
    ),
]
_PATIENCE = 60.0  # seconds that a process has to end
_SUPERVISED = "DPINFER_SUPERVISED"


@app.callback(invoke_without_command=True)
def serve(context: typer.Context) -> None:
    """Require the extra before any command of a server."""
    desk_commands.require_extra(context)


@app.command()
def init(
    folder: _Folder,
    *,
    title: desk_commands.Title = "",
    response_times: desk_commands.ResponseTimes = "5,15,60,300,900,3600",
    group: _Group = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a desk in a new folder.  Run it as the user who may read the data."""
    from dpinfer_desk.desk import Desk  # noqa: PLC0415  (loads pandas and formulaic)

    desk = Desk.create(folder, title, desk_commands.numbers(response_times))
    desk.folder.share(group)
    console = Screen(quiet, as_json)
    console.show(
        Text(f"A desk in {folder}. Next, add a table and a steward, and run it:"),
        f"$ dpinfer serve table add {folder} visits --data visits.parquet --schema schema.toml --ledger ledger.db",
        f"$ dpinfer serve person add {folder} you --role steward",
        f"$ dpinfer serve run {folder}",
    )
    console.emit({"desk": str(desk.folder.path), "id": desk.settings.id})


@app.command()
def share(folder: _Folder, *, group: _Group = "") -> None:
    """Give the process with the network its rights, as `init` does; needed after a backup was restored."""
    desk_commands.opened(folder).folder.share(group)


# Persons


@person_app.command("add")
def add_person(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    person: _Person,
    *,
    role: Annotated[str, typer.Option(help="steward, analyst or auditor.")] = "analyst",
    description: desk_commands.Description = "",
    table: Annotated[str, typer.Option(help="Also give an allowance at this table.")] = "",
    allowance: desk_commands.Allowance = "",
    epsilon: desk_commands.Epsilon = None,
    rho: desk_commands.Rho = None,
    password: Annotated[
        bool,
        typer.Option(
            "--password", help="Set a password now, from a prompt or a line of standard input."
        ),
    ] = False,
    address: _Address = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Open an account, and print an invitation with which the person sets a password, once."""
    from dpinfer_desk.store.roles import role_named  # noqa: PLC0415

    role_named(role)
    _require_address(address)
    desk = desk_commands.opened(folder)
    amount = None
    if table:
        amount = desk_commands.amount_of(desk, table, allowance, epsilon, rho)
    password_text = _password() if password else ""
    if person not in {one.name for one in desk.persons()}:
        person = desk.add_person(person, description).name
    if amount is not None:
        desk.allow(table, person, amount)
    accounts = _accounts(desk)
    accounts.open(person, role, desk.who)
    if password:
        accounts.set_password(person, password_text, desk.who)
        console = Screen(quiet, as_json)
        console.show(Text(f"{person} signs in with the password, as {role}."))
        console.emit({"person": person, "role": role})
        return
    _invited(accounts, desk, person, address, Screen(quiet, as_json))


@person_app.command("invite")
def invite(
    folder: _Folder,
    person: _Person,
    *,
    address: _Address = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Print a new invitation, for a person who lost the first one or a password."""
    _require_address(address)
    desk = desk_commands.opened(folder)
    _invited(_accounts(desk), desk, person, address, Screen(quiet, as_json))


@person_app.command("close")
def close(folder: _Folder, person: _Person) -> None:
    """Close an account, with all sessions and tokens, at once."""
    desk = desk_commands.opened(folder)
    _accounts(desk).close(person, desk.who)


@person_app.command("list")
def list_(folder: _Folder, *, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """List the accounts with their roles."""
    accounts = _accounts(desk_commands.opened(folder)).all()
    console = Screen(quiet, as_json)
    rows = [
        [one.person, one.role, "set" if one.has_password else "none yet", one.invited[:16]]
        for one in accounts
    ]
    console.show(screen.table(("Person", "Role", "Password", "Invited until"), rows, left=4))
    console.emit({"accounts": [vars(one) for one in accounts]})


def _require_address(address: str) -> None:
    if address and not address.startswith(("https://", "http://")):
        raise InputError(
            "--address takes the address of the desk, such as https://stats.example.org"
        )


def _invited(
    accounts: "Accounts", desk: "Desk", person: str, address: str, console: Screen
) -> None:
    secret = accounts.invite(person, desk.who)
    link = f"{address.rstrip('/')}/join#{secret}" if address else ""
    told = f"This invites {person}. It works once, within a week. Send it in private:"
    if not link:
        told += " it is entered at the desk, under “I have an invitation”."
    console.show(Text(told), link or secret)
    console.emit({"person": person, "invitation": secret, "link": link or None})


def _password() -> str:
    # Never an option: other users of the machine can see command lines.
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\r\n")


def _accounts(desk: "Desk") -> "Accounts":
    from dpinfer_desk.store.accounts import Accounts  # noqa: PLC0415

    return Accounts(desk.register)


# Running


@app.command()
def run(  # noqa: PLR0913  (the public face)
    folder: _Folder,
    *,
    host: _Host = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8766,
    names: _Names = None,
    proxies: _Proxies = None,
    certificate: _Certificate = None,
    key: _Key = None,
    identity_header: _IdentityHeader = "",
    web_only: Annotated[
        bool, typer.Option("--web-only", help="Run only the process with the network.")
    ] = False,
    worker_only: Annotated[
        bool, typer.Option("--worker-only", help="Run only the process with the data.")
    ] = False,
) -> None:
    """Run a desk: pages for persons who sign in, and the worker, each in a process of its own.

    Without --certificate and --key, or --behind-proxy, it listens on this machine only.  Ctrl-C or SIGTERM
    ends both; a fit that was booked goes on, and the next run takes it over.
    """
    if web_only and worker_only:
        raise InputError("--web-only or --worker-only: give one of them, or none for both")
    if worker_only:
        _work(folder)
        return
    from dpinfer_desk.web import network  # noqa: PLC0415  (an extra)

    config = network.ServerConfig(
        host, port, tuple(names or ()), tuple(proxies or ()), certificate, key, identity_header
    )
    config.check()
    if web_only:
        from dpinfer_desk.desk import Desk  # noqa: PLC0415

        _end_quietly()
        network.serve(Desk.open(folder, "web", public=True), config, _announce)
        return
    desk_commands.opened(folder)  # an error in it is reported before anything starts
    options = ["--host", host, "--port", str(port)]
    options += [word for name in config.names for word in ("--name", name)]
    options += [word for proxy in config.proxies for word in ("--behind-proxy", proxy)]
    if certificate is not None and key is not None:
        options += ["--certificate", str(certificate), "--key", str(key)]
    if identity_header:
        options += ["--identity-header", identity_header]
    _run_both([str(folder)], options)


def _announce(address: str) -> None:
    print(f"The desk is at {address}", flush=True)


def _work(folder: Path) -> None:
    """Run the worker until a signal ends it."""
    from dpinfer_desk.worker.worker import Worker  # noqa: PLC0415  (loads what a fit needs)

    stop = threading.Event()
    _end_quietly(stop)
    if _has_network():
        _warn("the worker has a network: start it by `dpinfer serve run`, systemd or the container")
    Worker(desk_commands.opened(folder)).run(stop=stop)


def _end_quietly(stop: threading.Event | None = None) -> None:
    """End this process in good order on SIGTERM and Ctrl-C, and when its parent ends."""

    def on_signal(_: int, __: FrameType | None) -> None:
        if stop is not None:
            stop.set()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, on_signal)
    if os.environ.get(_SUPERVISED):
        supervisor = int(os.environ[_SUPERVISED])
        parents = (os.getppid(), supervisor)
        threading.Thread(target=_end_with_parent, args=parents, daemon=True).start()


def _end_with_parent(parent: int, supervisor: int) -> None:
    """End this process after its parent, even if that has ended before the first check."""
    while os.getppid() == parent and _lives(supervisor):
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # of another user
        return True
    return True


def _has_network() -> bool:
    """Tell whether there is more than the loopback interface."""
    return any(name != "lo" for _, name in socket.if_nameindex())


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


def _run_both(folder: list[str], options: list[str]) -> None:
    """Run both processes until one of them ends or a signal ends this one."""
    from dpinfer_desk.checkup import UNSHARE, without_network  # noqa: PLC0415

    alone: tuple[str, ...] = UNSHARE
    if not without_network():
        alone = ()
        _warn(
            "this system starts no process without a network, so the worker has one: see `dpinfer serve check`"
        )
    own = [sys.executable, "-m", "dpinfer", "serve", "run"]
    environment = {**os.environ, _SUPERVISED: str(os.getpid())}
    stop = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: stop.set())
    worker = subprocess.Popen(
        [*alone, *own, *folder, "--worker-only"],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C of the terminal reaches this process alone
    )
    web = subprocess.Popen(
        [*own, *folder, *options, "--web-only"],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    both = {"web": web, "worker": worker}
    try:
        while not stop.wait(0.2) and all(one.poll() is None for one in both.values()):
            continue
        ended = [name for name, one in both.items() if one.poll() is not None]
    finally:
        _end(list(both.values()))
    if ended and not stop.is_set():
        raise InputError(f"the {ended[0]} process has ended, and the other one with it: see above")


def _end(processes: list["subprocess.Popen[bytes]"]) -> None:
    """End processes in good order, and kill those that do not end in time."""
    for one in processes:
        one.terminate()
    deadline = time.monotonic() + _PATIENCE
    for one in processes:
        try:
            one.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


# Maintenance


@app.command()
def check(
    folder: _Folder,
    *,
    web_user: Annotated[
        str, typer.Option("--web-user", help="The user of the process with the network.")
    ] = "",
    identity_header: _IdentityHeader = "",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Check the requirements of a desk on a network: rights, users, clock, disk, backup, accounts."""
    from dpinfer_desk.checkup import requirements  # noqa: PLC0415

    checked = list(requirements(desk_commands.opened(folder), web_user, identity_header))
    console = Screen(quiet, as_json)
    for one in checked:
        console.show(Text(f"{'ok     ' if one.met else 'MISSING'} {one.message}"))
    missing = [one for one in checked if not one.met]
    documents = [{"fine": one.met, "words": one.message} for one in checked]
    console.emit({"ok": not missing, "findings": documents})
    if missing:
        raise InputError(f"{len(missing)} of {len(checked)} are missing: {missing[0].message}")


@app.command()
def backup(
    folder: _Folder,
    out: Annotated[Path, typer.Argument(help="A new folder for the copy.", metavar="OUT")],
    *,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Copy a desk and its ledgers while they are in use, and print the hashes to store elsewhere.

    No record is copied.  The copy holds the secret of the desk: keep it where the data are kept.
    """
    from dpinfer_desk.backup import back_up  # noqa: PLC0415

    heads = back_up(desk_commands.opened(folder), out)
    console = Screen(quiet, as_json)
    console.show(
        Text(f"A copy in {out}. Store these hashes elsewhere; they reveal a restored old copy:")
    )
    for name, head in heads.items():
        console.show(Text(name), Text(f"  {head}"))  # on a line of its own, to be copied
    console.emit({"backup": str(out), "heads": heads})
