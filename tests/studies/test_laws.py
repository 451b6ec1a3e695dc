"""The laws of the committed results can be broken."""

import pytest

from helpers import laws

GOOD = {
    "lines": 500, "asked": 0.95, "instead_lines": 200, "instead": 0.94, "rejected_of": 200, "rejected": 0.05,
    "length": 1.2, "printed": 0.9, "answered": 0.95, "d": 2, "replicates": 100,
    "coefficients": {"names": ["a", "b"], "asked": [0.95, 0.8], "ceiling": [0.95, 0.82], "printed": [1.0, 0.9]},
}  # fmt: skip


def broken(**changes):
    return GOOD | changes


def test_a_good_cell_keeps_them():
    assert laws.covers_what_was_asked(GOOD)
    assert laws.near_the_ceiling(GOOD) == []  # b is low without noise, too
    assert laws.lines_instead_cover(GOOD)
    assert laws.keeps_its_level(GOOD)
    assert laws.is_in_order(GOOD)


def test_few_lines_have_no_average():
    assert laws.covers_what_was_asked(broken(asked=0.5, lines=99))
    assert laws.lines_instead_cover(broken(instead=0.5, instead_lines=99))
    assert laws.keeps_its_level(broken(rejected=0.5, rejected_of=99))


@pytest.mark.parametrize(
    ("law", "changes"),
    [
        (laws.covers_what_was_asked, {"asked": 0.92}),
        (laws.lines_instead_cover, {"instead": 0.89}),
        (laws.keeps_its_level, {"rejected": 0.11}),
        (laws.is_in_order, {"length": 0.9}),
        (laws.is_in_order, {"answered": 0.8}),
        (laws.is_in_order, {"d": 3}),
    ],
)
def test_each_can_be_broken(law, changes):
    assert not law(broken(**changes))


def test_a_coefficient_far_below_the_ceiling_is_named():
    columns = GOOD["coefficients"] | {"ceiling": [0.95, 0.95]}
    assert laws.near_the_ceiling(broken(coefficients=columns)) == ["b"]
    assert laws.near_the_ceiling(broken(coefficients=columns), {"b"}) == []
    assert laws.near_the_ceiling(broken(coefficients=columns | {"printed": [1.0, 0.4]})) == []
