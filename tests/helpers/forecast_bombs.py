"""Processes in the place of forecasts that do what they must not; a child imports them from here."""

from dpinfer_desk.worker import forecasts

PIECE = 10**8


def loops(ear, task):
    """Never ends."""
    while True:
        pass


def grows(ear, task):
    """Takes memory until there is none, and tells how much it got."""
    forecasts._limit()
    held = []
    try:
        while len(held) < 100:
            held.append(bytearray(PIECE))
    except MemoryError:
        ear.send_bytes(f"!{len(held)}".encode())


def dies(ear, task):
    """Ends without a word."""
    raise SystemExit(3)


def limited(ear, task):
    """Tells the limits that the kernel keeps."""
    import resource  # noqa: PLC0415

    forecasts._limit()
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE)
    ear.send_bytes(("!" + str([resource.getrlimit(kind) for kind in kinds])).encode())
