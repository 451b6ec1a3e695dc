# %% [markdown]
# # From a CSV file to a paper
#
# A file of records, what is public about them, and a budget. Table 1 says who took part, two models
# stand side by side, and each has a page: in under 40 lines.
#
# The table is made up and the noise comes from a known seed, so that the numbers stay the same;
# what is shown therefore says "NOT PRIVATE". For records of your own give
# `ledger=dp.Ledger.open("ledger.db")` in the place of `insecure_seed=1`.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp

folder = Path(tempfile.mkdtemp())
rng = np.random.default_rng(3)
n = 12_000
age = rng.integers(18, 91, n)
smoker = rng.random(n) < 0.25
ill = rng.random(n) < 1 / (1 + np.exp(3.2 - 0.03 * age - 0.7 * smoker))
records = {"visit": np.where(ill, "yes", "no"), "age": age, "smoker": smoker}
pd.DataFrame(records).to_csv(folder / "survey.csv", index=False)

# %% [markdown]
# What is public, and what each of three releases may cost.

# %%
schema = dp.Schema.parse("""
unit = "one person"
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
[columns.age]
type = "integer"
low = 18
high = 100
unit = "years"
[columns.smoker]
type = "boolean"
""")
spend = {"budget": dp.ApproxDP(0.5, 1e-6), "insecure_seed": 1}

# %% [markdown]
# Table 1, by smoking. In a notebook it shows itself; `summary()` says what it means and what it cost.

# %%
table1 = dp.describe(folder / "survey.csv", schema, by="smoker", columns=["age", "visit"], **spend)
table1  # noqa: B018

# %%
print(table1.summary())

# %% [markdown]
# Two models, and what changes when smoking comes in.

# %%
models = {
    name: dp.LogisticRegression(formula, schema=schema, **spend).fit(folder / "survey.csv").result_
    for name, formula in {"Age": "visit ~ age", "Age and smoking": "visit ~ age + smoker"}.items()
}
comparison = dp.compare(models)
print(comparison)

# %% [markdown]
# A page for each, with the numbers beside it as CSV, LaTeX and Markdown.

# %%
pages = dp.report.write(table1, folder / "table1", title="Who took part?")
pages += dp.report.write_side_by_side(comparison, folder / "models", title="Visits to a doctor")
print(*(path.relative_to(folder).as_posix() for path in pages), sep="\n")
