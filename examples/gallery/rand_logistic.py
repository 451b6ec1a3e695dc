# %% [markdown]
# # Logistic regression: cost sharing and visits to a doctor
#
# The RAND Health Insurance Experiment gave families insurance plans by lot: some paid nothing for a
# visit to a
# doctor, others up to 95 per cent. Does cost sharing keep people from seeing a doctor at all? The
# data, 20,190
# person-years, are public and come with dpinfer; the protected unit is one person-year.
#
# The noise in this notebook comes from a known seed, `insecure_seed=1`, so that its numbers stay
# the same. That is
# why the results say "NOT PRIVATE". With records of your own leave the seed out: the noise then
# comes from the
# operating system.

# %%
import dpinfer as dp

demo = dp.datasets.rand_hie()
print(demo.formula)
print(
    "disea:",
    demo.schema["disea"].low,
    "to",
    demo.schema["disea"].high,
    "-",
    demo.schema["disea"].source,
)

# %% [markdown]
# ## Before anything is spent
#
# The schema and the number of records are public. A forecast from them, with guesses of what is
# typical, tells how
# long intervals will be with three budgets. It reads no record.

# %%
guesses = {
    "visit": {True: 0.7},
    "idp": {True: 0.25},
    "health": {"good": 0.36, "fair": 0.08, "poor": 0.015},
    "lncoins": {"mean": 2.4, "sd": 2.0},
    "disea": {"mean": 11, "sd": 7},
}
schema = demo.schema.guess(guesses)
budgets = [dp.ApproxDP(epsilon, 1e-6) for epsilon in (0.5, 1.0, 2.0)]
found = dp.simulate.forecast(
    demo.formula, schema=schema, records=20_190, budgets=budgets, replicates=5
)
print(found.summary())

# %% [markdown]
# ## The fit
#
# A ledger holds the total for all that is ever released from these data, and tells beforehand what
# a fit would leave.
# With `ledger=ledger` the fit itself is booked before a record is read. A seeded fit cannot be
# booked, so this one
# goes without.

# %%
ledger = dp.Ledger(total=dp.ApproxDP(2.0, 1e-6), unit=demo.schema.unit.name)
budget = dp.ApproxDP(1.0, 1e-6)
model = dp.LogisticRegression(demo.formula, schema=demo.schema, budget=budget, insecure_seed=1)
seen = ledger.preview(model.entry(n=20_190))
print(f"accepted: {seen.accepted}. After it: {seen.statement}")

# %%
result = model.fit(demo.table).result_
result.to_frame().round(4)

# %%
dp.plot.forest(result)

# %% [markdown]
# The thick part of a bar is sampling error alone, the thin part what privacy adds. A higher
# coinsurance (`lncoins`)
# and an individual deductible (`idp`) make a visit less likely. `health[poor]` is 1.5 per cent of
# the records; its
# interval is long, and says so.

# %% [markdown]
# ## More of the same result, free of charge

# %%
print(result.odds_ratios().drop(columns="status").round(3))
fair = result.contrast("health[fair] - health[good]")
print(f"fair against good health: {fair.estimate:.3f}, from {fair.low:.3f} to {fair.high:.3f}")
print(result.wald("health"))

# %%
person = {
    "lncoins": [0.0, 4.6],
    "idp": 0,
    "lpi": 6,
    "fmde": 0,
    "physlm": 0,
    "disea": 10,
    "health": "good",
}
result.predict(person).round(3)

# %% [markdown]
# Someone who pays nothing, and someone who pays nearly all: the probability of at least one visit
# in a year, with
# intervals.
#
# ## Beside the fit without privacy
#
# These data are public, so we may look. Nobody may do this with private records.

# %%
import statsmodels.formula.api as smf  # noqa: E402

table = demo.table.assign(visit=demo.table["visit"].astype(int))
plain = smf.logit(demo.formula, table).fit(disp=False, cov_type="HC0")
known = plain.params.rename("not private").rename(lambda name: name.replace("[T.", "["))
beside = result.to_frame()[["estimate", "low", "high"]].join(known)
beside.iloc[1:].round(3)  # the intercepts are at different places
