# %% [markdown]
# # Survival of patients: curves
#
# How many patients live on without a relapse, and does a drug change that? One release gives
# Kaplan-Meier curves with intervals, cumulative incidence by cause, medians, mean times and the
# log-rank test. The method is in [the mathematics](../method.md).
#
# The cohort is made up and the noise comes from a known seed, so that the numbers stay the same;
# results therefore say "NOT PRIVATE". Leave `insecure_seed` out for records of your own.

# %%
import numpy as np
import pandas as pd

import dpinfer as dp

rng = np.random.default_rng(7)
n = 6_000
drug = rng.random(n) < 0.5
relapse = rng.exponential(np.where(drug, 16.0, 10.0))
death = rng.exponential(20.0, n)
followed = np.minimum(rng.uniform(2.0, 14.0, n), 10.0)  # ten years at most
years = np.minimum(np.minimum(relapse, death), followed)
status = np.where(years == followed, "none", np.where(relapse < death, "relapse", "death"))
arm = np.where(drug, "drug", "placebo")
cohort = pd.DataFrame({"years": years, "status": status, "arm": arm})

# %% [markdown]
# What is public: the upper bound of the time, and the levels of the event. Its reference is
# censored, every other level is a cause.

# %%
schema = dp.Schema.parse("""
unit = "one patient"
[columns.years]
type = "number"
low = 0
high = 10
label = "time since operation"
unit = "years"
[columns.status]
type = "category"
levels = ["none", "relapse", "death"]
reference = "none"
[columns.arm]
type = "category"
levels = ["placebo", "drug"]
""")
curves = dp.survival_curves(
    cohort,
    schema=schema,
    time="years",
    event="status",
    by="arm",
    bins=20,
    budget=dp.ApproxDP(1.0, 1e-6),
    insecure_seed=1,
)
print(curves.summary())

# %% [markdown]
# The plot has released numbers at risk under it. The areas are 95 % intervals of each time.

# %%
dp.plot.survival(curves)

# %% [markdown]
# Cumulative incidence of a relapse, where deaths come first for some. The areas are bands now:
# each includes the whole curve as often as an interval includes one point.

# %%
dp.plot.survival(curves, cause="relapse", band=True)

# %% [markdown]
# Medians, and the mean time without an event in the first five years.

# %%
print(curves.median().round(2).to_string(index=False))
print(curves.restricted_mean(5).round(3).to_string(index=False))

# %% [markdown]
# The log-rank test counts the privacy noise. By cause, other causes are censoring.

# %%
print(curves.test())
print(curves.test("relapse"))
print(curves.test("death"))

# %% [markdown]
# Without noise the estimates are those of Kaplan and Meier. Here is how far the released curve is
# from it, beside the half-width of its intervals, at four times.

# %%
plain = dp.survival_curves(
    cohort,
    schema=schema,
    time="years",
    event="status",
    by="arm",
    bins=20,
    budget=dp.NoPrivacy(),
)
released, exact = curves.to_frame(), plain.to_frame()
beside = released[["group", "time", "survival"]].assign(
    without_noise=exact["survival"], half_width=(released["high"] - released["low"]) / 2
)
print(beside[beside["time"].isin([2.5, 5.0, 7.5, 10.0])].round(3).to_string(index=False))
