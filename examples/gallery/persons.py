# %% [markdown]
# # Persons with several rows
#
# A panel: a person has several rows. Protecting one row does not protect the person, and errors
# that take rows of a
# person for independent are too small. With ids both are put right: all rows of a person are
# protected together, and
# intervals are clustered.
#
# The table is made up and the noise comes from a known seed, so that the numbers stay the same;
# results therefore say
# "NOT PRIVATE". Leave `insecure_seed` out for records of your own.

# %%
import numpy as np
import pandas as pd

import dpinfer as dp

rng = np.random.default_rng(2)
persons = 8_000
rows = rng.geometric(0.3, persons)
who = rng.permutation(np.repeat(np.arange(persons), rows))
age = rng.integers(18, 96, persons)[who]
effect = rng.normal(0, 1, persons)[who]  # what makes rows of a person alike
ill = rng.random(len(who)) < 1 / (1 + np.exp(3 - 0.04 * age - effect))
panel = pd.DataFrame({"person_id": who, "visit": np.where(ill, "yes", "no"), "age": age})
print(f"{len(panel):,} rows of {persons:,} persons, at most {rows.max()} a person")

# %% [markdown]
# Two schemas, the same columns. The first protects a row, the second a person.

# %%
COLUMNS = """
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
[columns.age]
type = "integer"
low = 18
high = 100
"""
by_row = dp.Schema.parse('unit = "one visit"\n' + COLUMNS)
by_person = dp.Schema.parse(
    '[unit]\nname = "one person"\ncolumn = "person_id"\nrows = "average"\n' + COLUMNS
)


def fitted(schema):
    """The same model, with whom the schema protects."""
    model = dp.LogisticRegression(
        "visit ~ age", schema=schema, budget=dp.ApproxDP(1.0, 1e-6), insecure_seed=1
    )
    return model.fit(panel).result_


results = {"row": fitted(by_row), "person": fitted(by_person)}
for unit, result in results.items():
    low, high = result.conf_int()[1]
    print(
        f"one {unit:7} age {result.estimate[1]:.4f}, from {low:.4f} to {high:.4f}, noise {result.noise_share[1]:.0%}"
    )

# %% [markdown]
# ## What each one says
#
# The interval of the first is short for two reasons: its noise hides one row only, and it takes
# rows of a person for
# independent, which they are not. The second is about the average person: someone with thirty
# visits counts as much
# as someone with one. The first is about the average row. Here the number of rows tells nothing
# about the outcome, so
# both estimate the same.

# %%
print(results["person"].summary())

# %% [markdown]
# ## What it would cost to get there by rows
#
# To protect a person by a fit that protects rows, ε would have to be divided by the largest number
# of rows that a
# person has, and δ by a little more. That number is itself private. With ids no such number is
# needed, and no person
# is cut off.

# %%
most = int(rows.max())
narrow = dp.ApproxDP(1.0 / most, 1e-6 / (most * np.e))
model = dp.LogisticRegression("visit ~ age", schema=by_row, budget=narrow, insecure_seed=1)
print(f"epsilon {narrow.epsilon:.3f} for a row, because somebody has {most} of them")
found = model.fit(panel).result_
low, high = found.conf_int()[1]
print(f"age: {found.status[1]}, from {low:.4f} to {high:.4f}")
