"""The sentences of the report that hold whatever the numbers are."""

from studies.paper.store import Settings

TABLES = {
    "kddcup-n": "KDDCUP99, n varied",
    "adult-d": "Adult, d varied",
    "banking-eps": "Banking, ε₁ varied",
    "us-eps2": "US (stand-in data), ε₂ varied",
    "br-eps3": "BR, ε₃ varied",
}

FIGURES = {
    "obj": "DP and zCDP with objective perturbation",
    "output": "DP and zCDP with output perturbation",
    "dp": "Objective and output perturbation under DP",
    "zcdp": "Objective and output perturbation under zCDP",
}


def opening(settings: Settings | None) -> str:
    """What this page is and how it was made."""
    settings = settings or Settings()
    return f"""# The paper's experiments, run again

Wang, Kifer and Lee, "Differentially Private Confidence Intervals for Empirical Risk Minimization", Journal of Privacy
and Confidentiality 9(1), 2019: five tables of coverage and four figures of length, computed with this library.

This page is written by a program; do not edit it. The command is

```sh
make reproduce DATA=folder    # python -m studies.paper --data folder; add --device cuda for a GPU
```

It goes on where it was interrupted. The results in `studies/paper/results` count as done: give `OUT=` another folder
to compute them again. Coverage and length are over {settings.replicates:,} bootstrap replicates, variability intervals
over {settings.variability:,}, at level {settings.level:g} with seed {settings.seed}. The numbers depend on the seed,
not on the machine's cores or GPU, up to rounding. All cells share that seed, so cells with the same n share replicates
and noise, and their simulation errors go together: a row that is off by .005 throughout is one error, not ten.

**Studies are not private.** They read the records without noise, and the paper scales columns by their largest value.
Do not publish such a study from sensitive records."""


COVERAGE = """Each cell holds our coverage (in bold) averaged over the coefficients, the number the paper prints, our
number minus the paper's, and the coverage of the worst single coefficient. The nominal level is .95. LR is logistic
regression; SVM is the Huberised hinge with h = 1. The penalty is c = .001. Where a share is not varied, ε₁ = .5 and
ε₂ = ε₃ = .25; zCDP runs at ρ = ε²/2. Of a coverage of .95 over 1,000 replicates one standard error is .007 for one
coefficient, and less for a mean over coefficients; the paper's numbers carry as much."""

LENGTHS = """A confidence interval (CI) is compared with the variability interval (VI): the range that holds the
released coefficient in 95 % of replicates. The VI is known only in a study. It does not depend on ε₂ and ε₃, and under
objective perturbation it is the same for DP and zCDP, because ρ₁ = ε₁²/2 runs at ε₁."""

CAPTION = """Length against the parameter. Solid: mean length of the CI; band: one standard deviation over replicates on
either side; dashed: VI. Lengths are averaged over the coefficients, and so are the standard deviations; where d is
varied they are of the first coefficient, as in the paper. Scales start at 0; a row shares its scale where its panels
are of similar height."""

FINDINGS = """A finding is *confirmed* if it holds at every point it speaks of (or at the share it names), *partly* if
it holds at half of them or more. The paper says "shorter", "similar" or "close" without numbers; the thresholds are
ours and stand in `studies/paper/findings.json`. A star marks a pattern that the printed tables show and the text does
not mention. The last column applies the same check to the paper's printed numbers, where it prints them."""

DIFFERENCES = """## Why numbers differ

- **The order of features is unknown.** "The first d features" depends on the order of the columns, which the paper does
  not give. We take the order of the file, numeric columns first. Another order is another regression.
- **US is a stand-in.** The paper's extract of IPUMS-US with 39,928 records cannot be had. We use the American Community
  Survey 2019 with an income label, all 23,006 rows of it. Only the pattern can be compared, not the numbers.
- **KDD is the 10 % file.** The paper draws n records from 4,898,431; we draw them from 494,021, of which 70 % repeat
  another record, and n = 450,000 is nearly all of them. The paper has 90 features; one column a level gives more.
- **Banking and BR come encoded.** We use the files of another paper's authors, in their order.
- **Simulation error**, up to about .007 on either side.
- **The floor of Σ.** The paper's Algorithm 2 raises the eigenvalues of both noisy matrices to at least 2c. For the
  Hessian that is right: it contains 2cI. For the covariance Σ of the scores it is not: eigenvalues of the true Σ can be
  far below .002, and the floor stays when n grows and the noise vanishes. Intervals are then too long for good, and
  coverage goes past .95. This is the method and not the simulation, and our numbers share it. How far an interval is
  too long depends on the columns, so on the unknown order. A sound floor would let CI/VI fall to 1 as n grows."""

ORDER = """The paper scales and normalises all columns and then takes the first d. Taking the first d columns before
scaling leaves larger features beside the constant, so a different regression. The middle column of every table, both
ways:"""

RAND = """## Beyond the paper: RAND HIE

The same five sweeps on the bundled RAND Health Insurance Experiment, 20,190 person-years. Columns are scaled by the
bounds of the public schema, not by the data, and the intervals are those of the product. d counts terms of the formula
(the last one has three coefficients), in its order; smaller n is a random sample. In each cell: mean coverage in bold,
the worst coefficient, and the mean length as a multiple of the length without privacy."""
