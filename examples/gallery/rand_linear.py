# %% [markdown]
# # Least squares: how many visits?
#
# The same experiment as in the notebook on logistic regression, with a number to be explained:
# visits to a doctor in
# a year. Counts have a long tail, and a long tail is dear, because the noise has to hide the person
# with the most
# visits. Their logarithm is better behaved, and all results are then about the logarithm.
#
# The noise comes from a known seed, so that the numbers stay the same; results therefore say "NOT
# PRIVATE". Leave
# `insecure_seed` out for records of your own.

# %%
import dpinfer as dp

demo = dp.datasets.rand_hie()
right = "lncoins + idp + lpi + fmde + physlm + disea + health"
budget = dp.ApproxDP(1.0, 1e-6)
model = dp.LinearRegression(
    f"log(1 + mdvis) ~ {right}", schema=demo.schema, budget=budget, insecure_seed=1
)
result = model.fit(demo.table).result_
print(result.summary())

# %%
dp.plot.forest(result)

# %% [markdown]
# ## The band
#
# Outcomes count within a released band around a released line. Beyond it they are pulled in, and
# the result says how
# much that is on average: next to nothing here.

# %%
print(f"clip {result.band.clip:.3f}, cut off on average {result.band.excess:.4f}")

# %% [markdown]
# ## Visits themselves
#
# Without the logarithm the tail is cut, and the result warns. `tail="cautious"` takes the tail for
# longer than it
# looks: its band is wider, and it pays with noise. It also believes that more is cut off. It is
# another question, too:
# about means of visits, of which the few with many make up a large part.

# %%
for tail in ("balanced", "cautious"):
    model = dp.LinearRegression(
        f"mdvis ~ {right}", schema=demo.schema, budget=budget, tail=tail, insecure_seed=1
    )
    visits = model.fit(demo.table).result_
    place = visits.names.index("idp")
    print(
        f"{tail:9} idp {visits.estimate[place]:.3f} ± {1.96 * visits.std_error[place]:.3f}, ",
        end="",
    )
    print(f"noise {visits.noise_share[place]:.0%}, band ± {visits.band.width:.1f} visits")

# %% [markdown]
# ## Beside ordinary least squares
#
# The data are public, so we may compare.

# %%
import numpy as np  # noqa: E402
import statsmodels.formula.api as smf  # noqa: E402

table = demo.table.assign(y=np.log1p(demo.table["mdvis"]))
plain = smf.ols(f"y ~ {right}", table).fit(cov_type="HC0")
known = plain.params.rename("not private").rename(lambda name: name.replace("[T.", "["))
beside = result.to_frame()[["estimate", "low", "high"]].join(known)
beside.iloc[1:].round(4)  # the intercepts are at different places
