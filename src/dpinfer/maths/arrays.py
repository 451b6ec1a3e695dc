"""The array type of the package, and the little randomness a formula may be handed."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def namespace(array: Any) -> Any:
    """numpy, or the array-API namespace of another library's array (studies on a GPU)."""
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace  # noqa: PLC0415  (only where such an array exists)

    return array_namespace(array)


class Randomness(Protocol):
    """What a law needs to draw: a numpy Generator (studies), or the operating system (releases)."""

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Independent N(0, 1) numbers."""
        ...

    def standard_exponential(self, size: tuple[int, ...], /) -> Array:
        """Independent exponential numbers with mean 1."""
        ...
