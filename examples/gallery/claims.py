# %% [markdown]
# # Claims per year
#
# How many claims does a policy make in a year, and what multiplies that number? Policies run for
# different times, so the years that each one ran are its exposure. The method is in
# [Counts, rates and costs](../counts.md).
#
# The table is made up and the noise comes from a known seed, so that the numbers stay the same;
# results therefore say "NOT PRIVATE". Leave `insecure_seed` out for records of your own.

# %%
import numpy as np
import pandas as pd

import dpinfer as dp

rng = np.random.default_rng(3)
n = 30_000
policies = pd.DataFrame(
    {
        "years": rng.uniform(0.2, 1.0, n).round(2),
        "age": rng.integers(18, 86, n),
        "region": rng.choice(["town", "city", "country"], n, p=[0.4, 0.35, 0.25]),
    }
)
line = -1.2 - 0.012 * (policies["age"] - 50) + 0.4 * (policies["region"] == "city")
varied = rng.gamma(1.5, 1 / 1.5, n)  # more varied than a Poisson law has it
policies["claims"] = rng.poisson(policies["years"] * np.exp(line) * varied)

# %% [markdown]
# Bounds are public. That of the claims may be generous: 100 is far more than a policy has.

# %%
schema = dp.Schema.parse("""
unit = "one policy"
[columns.claims]
type = "integer"
low = 0
high = 100
[columns.years]
type = "number"
low = 0
high = 1
[columns.age]
type = "integer"
low = 18
high = 90
[columns.region]
type = "category"
levels = ["town", "city", "country"]
""")
model = dp.PoissonRegression(
    "claims ~ age + region",
    schema=schema,
    exposure="years",
    budget=dp.ApproxDP(1.0, 1e-6),
    insecure_seed=1,
)
result = model.fit(policies).result_
print(result.summary())

# %% [markdown]
# ## Rate ratios
#
# A city has exp(.4) = 1.49 times the claims of a town, as they were made up; ten more years of age
# have exp(-.12) = .89 times.

# %%
print(result.rate_ratios().round(3).to_string())
print(result.contrast("10 * age"))

# %% [markdown]
# ## What a policy is expected to claim
#
# Per year, and in half a year: the exposure of a row is that of its policy.

# %%
someone = pd.DataFrame({"age": [25, 60], "region": ["city", "country"], "years": [1.0, 0.5]})
print(result.predict(someone).round(3).to_string())

# %% [markdown]
# ## Beside the regression without noise
#
# `dp.NoPrivacy()` is statsmodels' Poisson regression with robust errors, for whoever may see the
# records.

# %%
twin = dp.PoissonRegression(
    "claims ~ age + region", schema=schema, exposure="years", budget=dp.NoPrivacy()
)
exact = twin.fit(policies).result_
for name in ("age", "region[city]", "region[country]"):
    print(
        f"{name:16} {result.params[name]:8.4f} ± {1.96 * result.bse[name]:.4f}"
        f"   without noise {exact.params[name]:8.4f} ± {1.96 * exact.bse[name]:.4f}"
    )

# %%
dp.plot.forest(result)
