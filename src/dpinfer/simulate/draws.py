"""Bootstrap counts from a counter: the draw of record i in replicate r is a function of (seed, r, i) alone.

So a study gives the same replicates whatever its tiles, threads or device.  For studies only: a multiply-shift has
a bias of n/2³² a cell, and the generator (splitmix64) hides nothing.
"""

from typing import Any

import numpy as np

_GOLDEN, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_WRAP = 2**64


def bootstrap_counts(xp: Any, seed: int, replicates: range, n: int, device: Any = None, positive: Any = None) -> Any:
    """How often each of n records is drawn in n draws with replacement: uint8, one replicate a row.

    With ``positive``, the probabilities of the label +1, a draw of row i counts in cell i or, for the label -1, n + i.
    """
    steps = xp.arange(1, (n + 1) // 2 + 1, dtype=xp.int64, device=device) * _signed(_GOLDEN)
    rows = []
    for r in replicates:
        cells = (_words(xp, steps + _signed(_key(seed, 2 * r)), n) * n) >> 32
        if positive is not None:
            coin = xp.astype(_words(xp, steps + _signed(_key(seed, 2 * r + 1)), n), xp.float64) / 2.0**32
            cells = cells + n * xp.astype(coin >= xp.take(positive, cells), xp.int64)
        rows.append(xp.astype(_bincount(xp, cells, n if positive is None else 2 * n), xp.uint8))
    return xp.stack(rows)


def _key(seed: int, stream: int) -> int:
    """The start of a stream's own sequence."""
    return _mix_int((_mix_int(seed % _WRAP) + stream * _GOLDEN) % _WRAP)


def _words(xp: Any, z: Any, n: int) -> Any:
    """n numbers of 32 bits, two from each 64-bit integer; products wrap, masks make the shifts unsigned."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _signed(_MIX1)
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _signed(_MIX2)
    z = z ^ ((z >> 31) & (2**33 - 1))
    return xp.concat([(z >> 32) & (2**32 - 1), z & (2**32 - 1)])[:n]


def _bincount(xp: Any, cells: Any, size: int) -> Any:
    """The one step that no array-API standard covers: numpy and torch have it, others go through numpy."""
    if hasattr(xp, "bincount"):
        return xp.bincount(cells, minlength=size)
    return xp.asarray(np.bincount(np.asarray(cells), minlength=size))


def _mix_int(z: int) -> int:
    z = (z ^ (z >> 30)) * _MIX1 % _WRAP
    z = (z ^ (z >> 27)) * _MIX2 % _WRAP
    return z ^ (z >> 31)


def _signed(z: int) -> int:
    return z - _WRAP if z >= _WRAP // 2 else z
