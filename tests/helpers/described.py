"""Descriptions that are made by hand: every kind of figure, open ones, rare levels, groups."""

import math

from dpinfer.adjacency import Adjacency
from dpinfer.privacy.budget import ZCDP
from dpinfer.privacy.release import NoisySum
from dpinfer.result.description import FIGURE_TOO_NOISY, Description, Figure
from dpinfer.result.statements import Privacy
from dpinfer.schema.columns import Category, Number
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW

AGE = Number("age", 18, 95, unit="years", kind="integer")
INCOME = Number("income", 0, 150_000, unit="euro")
SMOKER = Number("smoker", 0, 1, kind="boolean")
HEALTH = Category("health", ("good", "fair", "poor"), "good")
COLUMNS = (AGE, INCOME, SMOKER, HEALTH)
SCHEMA = Schema({column.name: column for column in COLUMNS})
NO_NUMBER = (math.nan, math.nan, math.nan)


def of_all(group=None, shift=0.0):
    """The figures of all columns, of all records or of one group."""
    told = [
        ("age", None, "records", 19_981.3, 19_950.2, 20_012.4),
        ("age", None, "missing", 208.7, 177.6, 239.8),
        ("age", None, "mean", 46.31 + shift, 46.02 + shift, 46.6 + shift),
        ("age", None, "sd", 17.42, 17.1, 17.74),
        ("age", None, "q25", 32.0, 31.0, 33.0),
        ("age", None, "median", 45.0, 44.0, 46.0),
        ("age", None, "q75", 60.0, 59.0, 61.0),
        ("income", None, "records", 20_150.0, 20_100.0, 20_190.0),
        ("income", None, "missing", 3.2, 0.0, 34.4),
        ("income", None, "mean", 31_234.5, 30_870.1, 31_598.9),
        ("income", None, "sd", 2_100.0, 0.0, 21_000.0),
        ("income", None, "q25", *NO_NUMBER),
        ("income", None, "median", 27_650.0, 26_900.0, 28_400.0),
        ("income", None, "q75", 41_000.0, 40_100.0, 41_900.0),
        ("smoker", True, "count", 4_012.0, 3_981.0, 4_043.0),
        ("smoker", True, "share", 0.1987, 0.1931, 0.2043),
        ("health", "good", "count", 14_003.0, 13_972.0, 14_034.0),
        ("health", "good", "share", 0.6936, 0.6869, 0.7003),
        ("health", "fair", "count", 6_120.0, 6_089.0, 6_151.0),
        ("health", "fair", "share", 0.3031, 0.2965, 0.3097),
        ("health", "poor", "count", 4.0, 0.0, 35.1),
        ("health", "poor", "share", -0.0002, 0.0, 0.0017),
    ]
    return [
        Figure(*row, status=FIGURE_TOO_NOISY if math.isnan(row[3]) else "reported", group=group)
        for row in told
    ]


def privacy(**options):
    events = tuple(NoisySum(f"figures of {column.name}", ZCDP(0.025), 1.0) for column in COLUMNS)
    given = {
        "budget": ZCDP(0.1),
        "unit": "one person",
        "events": events,
        "in_ledger": True,
        "private": True,
        "neighbours": Adjacency.REPLACE,
        "release": "0123456789abcdef",
    }
    return Privacy(**(given | options))


def plain(**options):
    """Without groups."""
    given = {
        "figures": tuple(of_all()),
        "columns": COLUMNS,
        "by": "",
        "groups": (),
        "confidence": 0.95,
        "n": 20_190,
        "unit": ROW,
        "privacy": privacy(),
    }
    return Description(**(given | options))


def grouped(levels=("women", "men"), **options):
    """By a column, with differences of means and shares from the first group."""
    figures = []
    for place, level in enumerate(levels):
        figures += of_all(level, shift=place)
        if place:
            figures += [
                Figure(
                    "age", None, "difference", 1.0 * place, place - 0.4, place + 0.4, group=level
                ),
                Figure("smoker", True, "difference", 0.013, 0.002, 0.024, group=level),
            ]
    given = {"figures": tuple(figures), "by": "sex", "groups": tuple(levels)}
    return plain(**(given | options))
