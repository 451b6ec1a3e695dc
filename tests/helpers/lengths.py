"""Small tables that are longer than usual: the usual number of records is made small instead."""

import copy
from dataclasses import replace

from dpinfer.schema.unit import ROW

HOMES = ("mechanisms.summation_error", "mechanisms.sums", "schema.unit")


def usual(monkeypatch, number):
    """Let slack have room for ``number`` records; a schema that was read before says what it said."""
    monkeypatch.setitem(ROW.__dict__, "largest", number)  # arrays have no schema
    for home in HOMES:
        monkeypatch.setattr(f"dpinfer.{home}.DEFAULT_MAX_RECORDS", number)


def at_most(schema, rows):
    """A schema that declares its largest table."""
    declared = copy.copy(schema)
    object.__setattr__(declared, "unit", replace(schema.unit, largest=rows))
    return declared
