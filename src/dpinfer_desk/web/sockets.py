"""The socket that a server of the desk listens at."""

import socket

from dpinfer.errors import InputError

_BACKLOG = 1000  # connections that wait until they are accepted


def listening_socket(host: str, *ports: int) -> socket.socket:
    """Return a socket that listens at an address, on the first of some ports that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in ports:
        # It names its protocol: to connections of one that does not, asyncio leaves Nagle's algorithm,
        # and the second part of an answer waits 40 ms for a receipt of the first.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(_BACKLOG)
        except (OSError, OverflowError):
            listener.close()
            continue
        return listener
    raise InputError(
        f"port {ports[0]} of {host} is taken or not allowed: give another one with --port"
    )
