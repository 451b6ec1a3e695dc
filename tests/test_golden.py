"""The same seeded fits give the same numbers; ``python tests/golden/make.py`` stores new ones on
purpose.
"""

import json

import numpy as np
import pytest

from golden.make import FITS, STORED, STUDIES, numbers

SAVED = json.loads(STORED.read_text(encoding="utf-8"))


def same(found, stored):
    if isinstance(stored, list) and stored and isinstance(stored[0], str | bool):
        return list(found) == stored
    return np.allclose(
        np.asarray(found, dtype=float), np.asarray(stored, dtype=float), rtol=1e-6, equal_nan=True
    )


@pytest.mark.parametrize("name", FITS)
def test_a_seeded_fit_is_what_it_was(name):
    found, stored = numbers(FITS[name]()), SAVED[name]
    assert found.keys() == stored.keys()
    for key, value in stored.items():
        assert same(found[key], value), key


@pytest.mark.parametrize("name", STUDIES)
def test_a_seeded_study_is_what_it_was(name):
    assert all(same(*pair) for pair in zip(STUDIES[name](), SAVED[name], strict=True))


def test_every_stored_number_has_its_fit():
    assert SAVED.keys() == FITS.keys() | STUDIES.keys()
