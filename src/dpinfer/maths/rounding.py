"""How far floats are from real numbers: bounds that hold for all data, from public facts.

| symbol | meaning                                                     | name in code   |
| ------ | ----------------------------------------------------------- | -------------- |
| u      | 2⁻⁵³, the relative error of one operation                   | `UNIT`         |
| B      | most records in a block                                     | `BLOCK`        |
| N      | most records                                                |                |
| err    | error of a sum whose terms have norm at most 1              | `sum_error`    |

The products and sums of a block err by at most (B + 8) u times the sum of the norms of its terms; blocks are added with
compensation, which errs by u of the total and a square (Ogita, Rump and Oishi, 2005).  The proofs are in
docs/method.md, section 7.
"""

UNIT = 2.0**-53
BLOCK = 2048
"""Most records of a block.  Other blocks than the changed record's give the same bits for neighbours (replace)."""
MOST_RECORDS = 2**28
"""A public ceiling of the number of records, also where that number is private."""
SLACK = 2.0**-11
"""What the bound of a sum is raised by, relatively: half for the grid, half for the errors of two float sums."""


def shrunk(dim: int) -> float:
    """A factor that takes back the rounding of a norm of ``dim`` numbers: what was at most 1 is so in real numbers."""
    return 1 - (dim + 4) * 2.0**-52


def sum_error(*, private_number: bool, units: bool = False) -> float:
    """err, over the largest norm of a term.  Where the number of records or of rows is private, every block may differ.

    With units a block is longer than B where one unit is, which adds N u, and s sᵀ is formed of a rounded sum s, which
    adds 2 N u and a little.

    Guarantee [float_sums]: the float sum of a source is within err of the real one, up to what neighbours share.
    """
    moved = MOST_RECORDS if private_number or units else BLOCK
    return (BLOCK + (11 if units else 8)) * UNIT * moved + 2 * UNIT * MOST_RECORDS
