"""Two hundred short formulas that would take minutes or gigabytes, were they expanded before they are
counted.
"""

NUMBERS = [f"x{k}" for k in range(60)]
FACTORS = [f"f{k}" for k in range(20)]


def total(names):
    return "(" + " + ".join(names) + ")"


def _bombs():
    for many in range(15, 63, 3):  # 16 x 4
        for power in (3, 4, 6, 9):
            yield f"{total(NUMBERS[:many])}**{power}"
    for many in range(10, 60, 2):  # 25
        yield "*".join(NUMBERS[:many])
    for many in range(24, 54, 2):  # 15 x 2
        yield ":".join([total(NUMBERS[:many])] * 3)
        yield "*".join([total(NUMBERS[:many])] * 3)
    for depth in range(110, 1310, 60):  # 20
        yield "(" * depth + "x0" + ")" * depth
    for many in range(3, 20):  # 17
        yield ":".join(FACTORS[: many + 1])
    for many in range(10, 20):  # 10
        yield total(FACTORS[:many]) + "**2"
    for digits in range(3, 13):  # 10
        yield f"(x0 + x1)**{'9' * digits}"
    for length in range(1200, 7200, 500):  # 12
        yield "I(" + "-" * length + "x0)"
    for many in range(1600, 3200, 200):  # 8
        yield "+".join(["x0"] * many)
    for times in range(50_000, 90_000, 10_000):  # 4
        yield "x0 + " * times + "x0"


BOMBS = [f"y ~ {right}" for right in _bombs()]


def schema_text():
    """Sixty numbers, twenty factors of forty levels, an outcome."""
    numbers = [f"[columns.{name}]\ntype = 'number'\nlow = 0\nhigh = 1\n" for name in NUMBERS]
    levels = [str(k) for k in range(40)]
    factors = [f"[columns.{name}]\ntype = 'category'\nlevels = {levels}\n" for name in FACTORS]
    outcome = "[columns.y]\ntype = 'outcome'\nlevels = ['no', 'yes']\n"
    return "".join([outcome, *numbers, *factors])
