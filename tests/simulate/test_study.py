import json
from itertools import cycle

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.fit.penalised import Matrices, Penalised
from dpinfer.privacy.budget import ZCDP, PureDP
from dpinfer.rows import workers
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from dpinfer.simulate.batched import BatchedTrial
from dpinfer.simulate.population import Population
from dpinfer.simulate.study import trial_of
from helpers.support import RESIDUAL_LOSSES, labelled, numeric, unit_rows

N, D, C = 1200, 3, 0.01
X, Y = labelled(N, D)
OBJECTIVE, OUTPUT = dp.ObjectivePerturbation(), dp.OutputPerturbation()
PLANS = [
    dp.Plan(mechanism, *budget.split(2, 1, 1))
    for mechanism in (OBJECTIVE, OUTPUT)
    for budget in (dp.PureDP(2.0), dp.ZCDP(0.5), dp.NoPrivacy())
]
PLANS += [dp.Plan(OBJECTIVE, dp.PureDP(1.0), dp.ZCDP(0.2), dp.ZCDP(0.2))]
PLANS += [dp.Plan(dp.ObjectivePerturbation("gaussian"), *dp.ZCDP(0.5).split(2, 1, 1))]
# Small shares for the matrices, so that their noise is seen in the spread of the lengths.
NOISY = [
    dp.Plan(OBJECTIVE, dp.PureDP(2.0), dp.PureDP(0.4), dp.PureDP(0.4)),
    dp.Plan(OUTPUT, dp.ZCDP(5.0), dp.ZCDP(0.02), dp.ZCDP(0.02)),
    dp.Plan(OUTPUT, dp.ZCDP(0.02), dp.ZCDP(5.0), dp.ZCDP(0.02)),
]
NOISY += [
    dp.Plan(OBJECTIVE, dp.PureDP(2.0), dp.PureDP(0.2), dp.PureDP(0.2), recipe="tight"),
    dp.Plan(
        dp.ObjectivePerturbation("gaussian"),
        dp.ZCDP(0.5),
        dp.ZCDP(0.01),
        dp.ZCDP(0.01),
        recipe="tight",
    ),
    dp.Plan(OUTPUT, dp.ZCDP(5.0), dp.ZCDP(0.01), dp.ZCDP(0.01), recipe="tight"),
]
TINY = dp.Schema.parse('[columns.y]\ntype="outcome"\nlevels=[0,1]\n[columns.a]\ntype="boolean"')


def study(plan=PLANS[0], loss=None, **options):
    options = {"replicates": 300, "seed": 1} | options
    return dp.simulate.coverage(X, Y, loss=loss or dp.Logistic(), penalty=C, plan=plan, **options)


def named(part):
    mechanism = getattr(part, "mechanism", None)
    return f"{type(mechanism).__name__}-{part.cost}" if mechanism else type(part).__name__


IN_TURN = list(zip([*PLANS, *NOISY], cycle([dp.Logistic(), dp.HuberHinge(1.0)])))


@pytest.mark.parametrize(("plan", "loss"), IN_TURN, ids=named)
def test_a_study_is_many_real_fits(plan, loss):
    """Bootstrap samples fitted by `infer` itself: the same mean and spread of the lengths, the same
    coverage.  Plans take the losses in turn, so that every mechanism meets both.
    """
    fits = 300 if plan in NOISY else 120
    rng = np.random.default_rng(0)
    target = dp.infer(X, Y, loss=loss, penalty=C, budget=dp.NoPrivacy()).estimate
    lengths, covered = [], []
    for seed in range(fits):
        rows = rng.integers(0, N, N)
        low, high = (
            dp.infer(X[rows], Y[rows], loss=loss, penalty=C, plan=plan, insecure_seed=seed)
            .conf_int()
            .T
        )
        lengths.append(high - low)
        covered.append((low <= target) & (target <= high))
    found = study(plan, loss, replicates=1200)
    assert np.allclose(found.target, target, atol=1e-8)
    spread = np.std(lengths, axis=0)
    error = spread * np.sqrt(1 / fits + 1 / 1200) + 0.002 * found.length
    assert np.all(np.abs(np.mean(lengths, axis=0) - found.length) < 5 * error)
    assert np.all(
        np.abs(np.mean(covered, axis=0) - found.coverage) < 5 * np.sqrt(0.05 * 0.95 / fits) + 0.01
    )
    if plan in NOISY:  # elsewhere the sampling of the paper's intervals is most of the spread
        assert np.allclose(spread, found.length_sd, rtol=0.2)


@pytest.mark.parametrize("loss", [RESIDUAL_LOSSES[0], RESIDUAL_LOSSES[2]])
@pytest.mark.parametrize(
    "plan", [PLANS[1], PLANS[2], PLANS[4], NOISY[4]], ids=lambda p: f"{p.recipe}-{p.cost}"
)
def test_a_study_of_residuals_is_many_real_fits(plan, loss):
    rows, y = numeric(800, D)
    common = {"loss": loss, "penalty": 0.05, "plan": plan}
    target = dp.infer(rows, y, loss=loss, penalty=0.05, budget=dp.NoPrivacy()).estimate
    rng, lengths, covered = np.random.default_rng(0), [], []
    fits = 90
    for seed in range(fits):
        some = rng.integers(0, 800, 800)
        low, high = dp.infer(rows[some], y[some], insecure_seed=seed, **common).conf_int().T
        lengths.append(high - low)
        covered.append((low <= target) & (target <= high))
    found = dp.simulate.coverage(rows, y, replicates=600, **common)
    assert np.allclose(found.target, target, atol=1e-8)
    error = np.std(lengths, axis=0) * np.sqrt(1 / fits + 1 / 600) + 0.002 * found.length
    assert np.all(np.abs(np.mean(lengths, axis=0) - found.length) < 5 * error)
    assert np.all(
        np.abs(np.mean(covered, axis=0) - found.coverage) < 5 * np.sqrt(0.05 * 0.95 / fits) + 0.01
    )


def test_residuals_have_variability_and_no_probabilities():
    rows, y = numeric(500, D)
    common = {"loss": dp.Huber(0.2), "penalty": 0.05, "budget": dp.ZCDP(0.5)}
    low, high = dp.simulate.variability(rows, y, replicates=400, **common)
    target = dp.infer(rows, y, loss=dp.Huber(0.2), penalty=0.05, budget=dp.NoPrivacy()).estimate
    assert np.all((low < target) & (target < high))
    with pytest.raises(dp.InputError, match="give outcomes y instead"):
        dp.simulate.coverage(rows, truth=np.full(500, 0.5), **common)


@pytest.mark.parametrize("plan", NOISY)
def test_wrong_matrix_noise_would_be_seen(plan, monkeypatch):
    """The spread of the lengths is made by the matrix noise: none, or half of it, is far from the
    true one.
    """
    honest, drawn = study(plan, replicates=1000).length_sd, BatchedTrial._matrix_noise
    draw = BatchedTrial._draw
    monkeypatch.setattr(BatchedTrial, "_matrix_noise", lambda self, *a: 0.5 * drawn(self, *a))
    if plan.recipe == "tight":
        monkeypatch.setattr(
            BatchedTrial,
            "_draw",
            lambda self, law, s, *a: (0.5 if s == 1 else 1) * draw(self, law, s, *a),
        )
    assert np.any(study(plan, replicates=1000).length_sd < 0.75 * honest)


@pytest.mark.parametrize("plan", [p for p in NOISY if p.recipe == "tight"])
def test_the_study_widens_as_the_product_does(plan, monkeypatch):
    """One replicate, the whole data set, given the product's own matrices: the same interval."""
    fit = dp.infer(X, Y, loss=dp.Logistic(), penalty=C, plan=plan, insecure_seed=5)
    recipe = Penalised(Design.of_rows(3), dp.Logistic(), plan, penalty=C)
    trial = trial_of(recipe, Population.of_records(Rows.of(X, Y)), 0)
    noise = fit.error.hessian_noise, fit.error.score_noise * N
    matrices = Matrices(fit.hessian[None], fit.score_cov[None], *(np.array([[s]]) for s in noise))
    aimed = trial._aim(np.zeros((1, 3)), matrices, 0.0)
    half = trial._half(aimed, fit.error.noise, 0.95)[0]
    assert np.allclose(
        2 * half, np.diff(fit.conf_int(0.95))[:, 0], rtol=1e-4
    )  # but for the mask of the minimum
    if isinstance(plan.hessian, ZCDP):  # and the study states the same noise
        drawn = trial._release(range(1), False)[1]
        assert float(np.ravel(drawn.hessian_noise)[0]) == pytest.approx(noise[0])
        assert float(np.ravel(drawn.score_noise)[0]) == pytest.approx(noise[1])


def test_what_cannot_be_fitted_is_not_reported():
    """Without a penalty a replicate may have no minimum: it counts in `reported`, and spoils
    nothing.
    """
    rows, labels = X[:14], Y[:14]
    found = dp.simulate.coverage(rows, labels, penalty=0.3, budget=dp.NoPrivacy(), replicates=50)
    assert np.all(found.reported == 1)
    rare = np.column_stack([X[:300], np.zeros(300)])
    rare[:2, 3], some = 0.5, np.append(Y[:298], [1.0, -1.0])
    for loss in (dp.Logistic(), dp.HuberHinge(0.5)):
        penalised = dp.simulate.coverage(
            rare, some, loss=loss, penalty=1e-3, plan=PLANS[4], replicates=200
        )
        assert np.isfinite(penalised.nonprivate_length).all()
    found = dp.simulate.coverage(
        rare, some[::-1], penalty=0.0, budget=dp.NoPrivacy(), replicates=200
    )
    assert np.all(
        found.reported < 1
    )  # the rare rows are missing, or of one label, in many replicates
    assert np.all(found.reported > 0)
    assert np.isfinite(found.length).all()


def test_variability_is_the_quantiles_of_the_estimates(monkeypatch):
    kept = []
    estimates = BatchedTrial.estimates
    monkeypatch.setattr(
        BatchedTrial, "estimates", lambda self, r: kept.append(estimates(self, r)) or kept[-1]
    )
    low, high = dp.simulate.variability(
        X, Y, penalty=C, plan=PLANS[1], replicates=500, level=0.9, workers=1
    )
    assert np.allclose(
        np.quantile(np.concatenate(kept), [0.05, 0.95], axis=0), [low, high], rtol=1e-12
    )
    assert len(np.concatenate(kept)) == 500


@pytest.mark.parametrize("plan", PLANS)
def test_nonprivate_length_is_that_of_the_same_replicates(plan):
    found, plain = study(plan), study(PLANS[2])
    assert np.allclose(found.nonprivate_length, plain.length, rtol=1e-6)
    assert np.all(found.length >= plain.length * (1 - 1e-9)) or plan.cost == dp.NoPrivacy()
    assert np.isnan(study(plan, nonprivate=False).nonprivate_length).all()
    assert np.all(found.reported == 1)


def test_without_noise_coverage_is_nominal():
    assert study(PLANS[2], replicates=2000).mean_coverage == pytest.approx(0.95, abs=0.01)


def test_numbers_depend_on_the_seed_alone(monkeypatch):
    first = study(workers=1)
    assert np.array_equal(study(workers=2).coverage, first.coverage)
    assert np.array_equal(study(workers=2).length, first.length)
    assert not np.array_equal(study(seed=2).length, first.length)
    monkeypatch.setattr(BatchedTrial, "batch", 50)  # batches of another size, streams of the same
    assert np.allclose(study().length, first.length, rtol=1e-9)
    assert np.array_equal(study().coverage, first.coverage)


def test_a_halved_noise_scale_is_caught(monkeypatch):
    """A mechanism with half the noise it claims is seen in the coverage and in the variability
    interval.
    """
    plan = dp.Plan(OUTPUT, *dp.ZCDP(0.02).split(2, 1, 1))
    honest, low_high = (
        study(plan),
        dp.simulate.variability(X, Y, loss=dp.Logistic(), penalty=C, plan=plan, replicates=1000),
    )
    drawn = BatchedTrial._draw
    monkeypatch.setattr(
        BatchedTrial,
        "_draw",
        lambda self, law, s, r, d: drawn(self, law, s, r, d) * (0.5 if s == 0 else 1),
    )
    assert honest.mean_coverage < 0.975
    assert study(plan).mean_coverage > 0.99
    halved = dp.simulate.variability(
        X, Y, loss=dp.Logistic(), penalty=C, plan=plan, replicates=1000
    )
    assert np.all((halved[1] - halved[0]) < 0.7 * (low_high[1] - low_high[0]))


@pytest.mark.parametrize("plan", PLANS)
def test_variability_interval_matches_the_confidence_interval_at_large_matrix_budgets(plan):
    low, high = dp.simulate.variability(
        X, Y, loss=dp.Logistic(), penalty=C, plan=plan, replicates=3000, seed=5
    )
    target = dp.infer(X, Y, loss=dp.Logistic(), penalty=C, budget=dp.NoPrivacy()).estimate
    assert np.all((low < target) & (target < high))
    precise = dp.Plan(
        plan.mechanism,
        plan.estimate,
        *[dp.NoPrivacy() if plan.cost == dp.NoPrivacy() else ZCDP(1e6)] * 2,
    )
    assert np.allclose(study(precise).length, high - low, rtol=0.1)


@pytest.mark.parametrize("truth", ["array", "function"])
def test_known_truth(truth):
    """A logistic population with known probabilities: the target is the penalised minimiser of the
    population.
    """
    rows = unit_rows(2000, 3, seed=5)

    def probability(x):
        return 1 / (1 + np.exp(-x @ np.array([1.0, -2.0, 0.5])))

    found = dp.simulate.coverage(
        rows, truth=probability if truth == "function" else probability(rows), loss=dp.Logistic(), penalty=1e-4,
        plan=dp.Plan(OUTPUT, dp.NoPrivacy(), dp.NoPrivacy(), dp.NoPrivacy()), replicates=1500,
    )  # fmt: skip
    assert found.mean_coverage == pytest.approx(0.95, abs=0.012)
    assert np.allclose(
        found.target, [1.0, -2.0, 0.5], atol=0.05
    )  # the truth, but for the small penalty
    private = dp.simulate.coverage(
        rows, truth=probability, penalty=0.01, budget=dp.ZCDP(0.5), replicates=500
    )
    assert private.mean_coverage > 0.93


def test_a_table_is_studied_in_its_own_units():
    demo = dp.datasets.rand_hie()
    found = dp.simulate.coverage(
        demo.table,
        schema=demo.schema,
        formula=demo.formula,
        budget=dp.ZCDP(0.1875),
        replicates=24,
        seed=0,
    )
    model = dp.LogisticRegression(
        demo.formula, schema=demo.schema, budget=dp.ZCDP(0.1875), insecure_seed=0
    )
    result = model.fit(demo.table).result_
    assert found.names == result.names
    assert np.allclose(found.length, np.diff(result.conf_int())[:, 0], rtol=0.25)
    assert found.mean_coverage > 0.9


def test_a_study_resumes(tmp_path, monkeypatch):
    path = tmp_path / "study.json"
    whole = study(replicates=500)
    calls = []
    tally = BatchedTrial.tally

    def interrupted(self, replicates, level, *, nonprivate):
        calls.append(replicates)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return tally(self, replicates, level, nonprivate=nonprivate)

    monkeypatch.setattr(BatchedTrial, "tally", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study(replicates=500, checkpoint=path, workers=1)
    assert len(json.loads(path.read_text())["tallies"]) == 2
    again = study(replicates=500, checkpoint=path, workers=1)
    assert len(calls) == 5  # two done, one lost, two more
    assert np.array_equal(again.coverage, whole.coverage)
    assert np.allclose(again.length, whole.length, rtol=1e-14)
    assert len(json.loads(path.read_text())["tallies"]) == 4
    changed = (
        {"seed": 9},
        {"level": 0.9},
        {"plan": PLANS[1]},
        {"loss": dp.HuberHinge(1.0)},
        {"nonprivate": False},
    )
    for options in changed:
        with pytest.raises(dp.InputError, match="another study"):
            study(**({"replicates": 500, "checkpoint": path} | options))
    with pytest.raises(dp.InputError, match="another study"):
        dp.simulate.coverage(
            X,
            -Y,
            loss=dp.Logistic(),
            penalty=C,
            plan=PLANS[0],
            replicates=500,
            seed=1,
            checkpoint=path,
        )
    for odd in ('{"study": "", "tallies": []}', '{"study": "", "tallies": {"0": []}}', "[]"):
        path.write_text(odd)
        with pytest.raises(dp.InputError, match=r"checkpoint|another"):
            study(replicates=500, checkpoint=path)
    path.write_text("{")
    with pytest.raises(dp.InputError, match="not a checkpoint"):
        study(replicates=500, checkpoint=path)


def test_a_study_says_that_it_is_not_private_and_round_trips():
    found = study(replicates=50)
    assert "NOT PRIVATE" in found.summary()
    assert "50 replicates" in found.summary()
    again = dp.simulate.Study.from_json(found.to_json())
    assert np.array_equal(again.length, found.length)
    assert again.summary() == found.summary()
    assert found.mean_length == pytest.approx(found.length.mean())
    assert found.min_coverage == found.coverage.min()
    assert np.array_equal(
        found.stated_coverage, found.coverage
    )  # a fit with a penalty states what was asked
    assert np.array_equal(found.answered, found.reported)


def test_a_study_without_nonprivate_lengths_is_strict_json():
    found = study(replicates=20, nonprivate=False)
    text = found.to_json()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert np.isnan(dp.simulate.Study.from_json(text).nonprivate_length).all()
    assert '"nan"' not in text
    assert json.loads(text)["nonprivate_length"] == [None] * len(found.names)


def test_progress_is_told_in_order(tmp_path):
    """Replicates done and all of them; what a checkpoint brings is done already."""
    told = []
    study(replicates=300, progress=lambda *numbers: told.append(numbers))
    assert told == [(128, 300), (256, 300), (300, 300)]
    told.clear()
    path = tmp_path / "study.json"
    study(replicates=300, checkpoint=path)
    kept = json.loads(path.read_text())
    del kept["tallies"]["128"]
    path.write_text(json.dumps(kept))
    study(replicates=300, checkpoint=path, progress=lambda *numbers: told.append(numbers))
    assert told == [(300, 300)]
    told.clear()
    options = {"penalty": C, "plan": PLANS[0], "replicates": 200}
    dp.simulate.variability(X, Y, **options, progress=lambda *numbers: told.append(numbers))
    assert told == [(128, 200), (200, 200)]


BOUNDS = (-np.ones(D), np.ones(D))


def same(first, second):
    return first.to_json() == second.to_json()


def test_a_model_comes_first_or_by_its_name():
    model = dp.LogisticRegression(bounds=BOUNDS, classes=(-1, 1), budget=PureDP(1.0))
    found = dp.simulate.coverage(model, X, Y, replicates=20)
    assert same(found, dp.simulate.coverage(model, data=X, y=Y, replicates=20))
    assert same(found, dp.simulate.coverage(X, Y, model=model, replicates=20))
    assert same(found, dp.simulate.coverage(X, y=Y, model=model, replicates=20))
    low, high = dp.simulate.variability(model, X, Y, replicates=200)
    assert np.all((low < found.target) & (found.target < high))


def test_an_option_that_is_none():
    with pytest.raises(TypeError, match="unexpected option penality=: there are formula, schema"):
        dp.simulate.coverage(X, Y, penality=C, budget=PureDP(1.0))


def test_outcomes_come_by_place_or_by_name():
    options = {"penalty": C, "budget": PureDP(1.0), "replicates": 20}
    assert same(dp.simulate.coverage(X, Y, **options), dp.simulate.coverage(X, y=Y, **options))


def test_least_squares_of_a_table_by_a_word():
    demo = dp.datasets.rand_hie()
    table = demo.table.iloc[:2000]
    formula = "mdvis ~ lncoins + idp"
    options = {"budget": dp.ZCDP(0.5), "target": "robust"}
    model = dp.LinearRegression(formula, schema=demo.schema, **options)
    asked = {"schema": demo.schema, "formula": formula, "replicates": 3}
    named = dp.simulate.coverage(table, model="linear", **asked, **options)
    assert same(named, dp.simulate.coverage(model, table, replicates=3))
    asked["formula"] = demo.formula
    plain = dp.simulate.coverage(table, budget=dp.ZCDP(0.5), **asked)
    assert same(plain, dp.simulate.coverage(table, model="logistic", budget=dp.ZCDP(0.5), **asked))


def test_threads_are_those_asked_for(monkeypatch):
    """Or those of the environment."""
    sizes = []
    pool = workers.worker_pool
    monkeypatch.setattr(workers, "worker_pool", lambda size=None: sizes.append(size) or pool(size))
    study(replicates=1000, workers=3)
    study(replicates=1000)
    assert sizes == [3, None]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: study(level=1.5), "level"),
        (lambda: study(replicates=0), "replicates must be"),
        (lambda: study(replicates=10.5), "replicates must be"),
        (lambda: study(seed=-1), "seed must be"),
        (lambda: study(seed=2**32), "seed must be"),
        (lambda: study(workers=-1), "workers must be"),
        (lambda: study(loss="logistic"), "is not a loss"),
        (lambda: study(checkpoint="nowhere/at/all.json"), "folder of the checkpoint"),
        (lambda: study(progress=True), "takes a function"),
        (lambda: dp.simulate.variability(X, Y, budget=PureDP(1.0), level=2), "level"),
        (
            lambda: dp.simulate.variability(X, Y, budget=PureDP(1.0), replicates=0),
            "replicates must be",
        ),
        (
            lambda: dp.simulate.coverage(X, Y, formula="y ~ a", schema=TINY, budget=PureDP(1.0)),
            "without y or truth",
        ),
        (
            lambda: dp.simulate.coverage(X, Y, schema=TINY, budget=PureDP(1.0)),
            "schema= and formula=",
        ),
        (lambda: study(target="true"), "there is no target"),
        (lambda: dp.simulate.coverage(X, budget=PureDP(1.0)), "labels y or a known truth"),
        (
            lambda: dp.simulate.coverage(X, Y, truth=Y, budget=PureDP(1.0)),
            "labels y or a known truth",
        ),
        (lambda: dp.simulate.coverage(X, truth=Y * 3, budget=PureDP(1.0)), "probability"),
        (lambda: dp.simulate.coverage(X, Y), "give either budget"),
        (lambda: dp.simulate.coverage(X, Y, budget=PureDP(1.0), penalty=1e-9), "too small"),
        (lambda: dp.simulate.coverage(X, formula="y ~ a", budget=PureDP(1.0)), "needs schema="),
        (
            lambda: dp.simulate.coverage(X, Y, Y, budget=PureDP(1.0)),
            "what comes first is a dpinfer",
        ),
        (lambda: dp.simulate.coverage(X, Y, model="line"), "takes a dpinfer model"),
        (lambda: dp.simulate.coverage(X, Y, model=dp.LinearSVC), "takes a dpinfer model"),
        (lambda: dp.simulate.coverage(X, Y, model="linear", loss=dp.Huber(0.2)), "has its loss"),
        (lambda: dp.simulate.coverage(X, Y, model="linear"), "studied on a table"),
        (lambda: dp.simulate.coverage(dp.LinearSVC(bounds=BOUNDS), X, Y, penalty=0.0), "penalty="),
        (
            lambda: dp.simulate.variability(
                dp.LogisticRegression(bounds=BOUNDS, classes=(-1, 1), budget=ZCDP(1.0)), X, Y
            ),
            "target 'penalised'",
        ),
    ],
)
def test_bad_studies(call, message):
    with pytest.raises(dp.DpinferError, match=message):
        call()
