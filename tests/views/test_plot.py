"""The pictures: what is in them, and that they render at every size."""

import dataclasses
import io
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

import dpinfer as dp
from dpinfer.simulate import Study
from dpinfer.views import plot
from dpinfer.views import plot as studies
from dpinfer.views.forest import SAMPLING_ERROR, WITH_BIAS_BOUND, WITH_NOISE, panels, result_rows
from helpers.support import labelled

RATES = Path(__file__).parents[1] / "result/saved/rates.json"


def study(d, *, coverage=None, length=None, plain=None, **facts):
    rng = np.random.default_rng(d)
    length = rng.uniform(0.2, 0.4, d) if length is None else np.array(length)
    values = {
        "names": tuple(f"occupation[level {j}]" for j in range(d)),
        "target": rng.normal(size=d),
        "coverage": np.full(d, 0.95) if coverage is None else np.array(coverage),
        "stated_coverage": np.full(d, 0.95),
        "length": length,
        "length_sd": length / 10,
        "nonprivate_length": length / 2 if plain is None else np.array(plain),
        "reported": np.ones(d),
        "answered": np.ones(d),
        "replicates": 400,
        "level": 0.95,
        "seed": 0,
        "setting": "n = 1000, Logistic(), penalty 0.001, output perturbation, recipe paper, none (noise off)",
    }
    return Study(**(values | facts))


def drawn(figure):
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("d", [1, 3, 40])
def test_one_row_a_coefficient(d):
    found = study(d)
    figure = plot.coverage(found)
    assert drawn(figure).startswith(b"\x89PNG")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == list(found.names)
    assert left.get_ylim() == right.get_ylim() == (d - 0.5, -0.5)  # the first at the top
    points = left.containers[0].lines[0]
    assert np.array_equal(points.get_xdata(), found.coverage)
    lengths = {line.get_label(): line.get_xdata() for line in right.get_lines()}
    assert np.array_equal(lengths["length, private"], found.length)
    assert np.array_equal(lengths["length without noise"], found.nonprivate_length)


def test_rows_do_not_overlap():
    figure = plot.coverage(study(40))
    drawn(figure)
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))
    key = figure.legends[0].get_window_extent()
    assert key.x0 >= 0
    assert key.x1 <= figure.bbox.width
    assert key.y0 > max(axes.get_window_extent().y1 for axes in figure.axes)


def test_the_figure_says_what_it_is():
    figure = plot.coverage(study(3, level=0.9))
    assert "90 % confidence intervals" in figure.legends[0].get_title().get_text()
    assert "nominal level 0.9" in legend(figure)
    assert "NOT PRIVATE" in figure.get_supxlabel()
    assert "400 replicates" in figure.get_supxlabel()


def test_whiskers_are_two_standard_errors():
    """Each end p is two of its own standard errors away from what was found."""
    found = np.array([0.0, 0.5, 0.95, 1.0])
    low, high = studies._whiskers(found, 400)
    for end in (low, high):
        assert np.allclose(
            np.abs(found - end), 2 * np.sqrt(np.clip(end * (1 - end), 0, 1) / 400), atol=1e-7
        )
    assert np.all(low[1:] < found[1:])
    assert np.all(high[:-1] > found[:-1])


def test_too_low_a_coverage_stands_out():
    assert "below nominal by over 2 s.e." not in legend(plot.coverage(study(3)))
    figure = plot.coverage(study(3, coverage=[0.95, 0.85, 1.0]))
    good, bad = figure.axes[0].containers
    assert "below nominal by over 2 s.e." in legend(figure)
    assert list(bad.lines[0].get_ydata()) == [1]
    assert bad.lines[0].get_marker() != good.lines[0].get_marker()  # not by colour alone
    assert to_hex(bad.lines[0].get_color()) != to_hex(good.lines[0].get_color())


def test_lengths_of_different_size_take_a_log_scale():
    assert plot.coverage(study(3, length=[1.0, 2.0, 3.0])).axes[1].get_xscale() == "linear"
    figure = plot.coverage(study(3, length=[0.01, 1.0, 300.0]))
    assert figure.axes[1].get_xscale() == "log"
    assert "log scale" in figure.axes[1].get_xlabel()
    drawn(figure)


def test_odd_studies_render():
    unknown = plot.coverage(study(3, plain=[np.nan] * 3))
    assert "length without noise" not in legend(unknown)
    endless = plot.coverage(study(3, length=[np.inf, 1.0, np.nan], plain=[0.5, 0.5, 0.5]))
    assert len(endless.axes[1].texts) == 2
    nothing = plot.coverage(study(3, coverage=[0.0, 0.0, 1.0], length=[0.0] * 3, replicates=1))
    names = plot.coverage(study(3, names=("a$b$", "x" * 200, "_hidden")))
    assert names.axes[0].get_yticklabels()[1].get_text().endswith("…")
    for figure in (unknown, endless, nothing, names):
        drawn(figure)


X, Y = labelled(2000, 3)


def fit(names=("age", "income", "sex[f]"), **options):
    found = dp.infer(
        X,
        Y,
        **(
            {"penalty": 0.01, "budget": dp.ZCDP(0.1), "insecure_seed": 3, "loss": dp.Logistic()}
            | options
        ),
    )
    return dataclasses.replace(found, names=tuple(names))


def scaled(result, *factors):
    return dataclasses.replace(
        result,
        estimate=result.estimate * factors,
        error=result.error.mapped(np.diag(np.array(factors, dtype=float))),
    )


def without(result, j):
    kept = np.delete(np.eye(len(result.names)), j, axis=0)
    words = ["reported"] * len(result.names)
    words[j] = "not identified at this budget"
    return dataclasses.replace(result, error=result.error.mapped(kept), status=tuple(words))


def ends(axes, label):
    """Left and right ends of the horizontal bars with this label, one a row."""
    if label in (SAMPLING_ERROR, WITH_BIAS_BOUND):
        lines = next(c for c in axes.collections if c.get_label() == label)
    else:
        lines = next(c for c in axes.containers if c.get_label() == label).lines[2][0]
    return np.array([segment[:, 0] for segment in lines.get_segments()])


def lengths(bars):
    return bars[:, 1] - bars[:, 0]


@pytest.mark.parametrize("budget", [dp.ZCDP(0.1), dp.PureDP(1.0), dp.NoPrivacy()])
def test_a_forest_shows_the_interval_and_its_parts(budget):
    result = dataclasses.replace(fit(budget=budget), estimate=np.array([0.2, -0.1, 0.1]))
    figure = plot.forest(result, level=0.9)
    assert drawn(figure).startswith(b"\x89PNG")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(result.names)
    whole, inner = ends(axes, WITH_NOISE), ends(axes, SAMPLING_ERROR)
    assert np.allclose(whole, result.conf_int(0.9), rtol=1e-12)
    assert np.allclose(lengths(inner), result.interval_parts(0.9)["sampling"])
    assert np.all((inner[:, 0] <= result.estimate) & (result.estimate <= inner[:, 1]))
    low, high = axes.get_xlim()
    assert low <= min(0, whole.min())
    assert high >= max(0, whole.max())
    assert "90% confidence intervals" in figure.legends[0].get_title().get_text()
    assert {"estimate", WITH_NOISE, SAMPLING_ERROR} == set(legend(figure))
    assert ("larger budget" in figure.get_supxlabel()) == (budget != dp.NoPrivacy())


def test_a_bias_bound_is_a_part_of_its_own():
    """Where little of an interval is privacy noise, most of it may be a bound that is no noise."""
    rates = dp.FitResult.load(RATES)
    figure = plot.forest(rates, intercept=True)
    parts = rates.interval_parts()[rates.reported]
    assert (parts["bias_bound"] > 0.05 * parts["total"]).any()
    for label, sources in (
        (SAMPLING_ERROR, ["sampling"]),
        (WITH_BIAS_BOUND, ["sampling", "bias_bound"]),
        (WITH_NOISE, ["total"]),
    ):
        shown = np.concatenate([ends(axes, label) for axes in figure.axes])
        assert np.allclose(lengths(shown), parts[sources].sum(axis=1))
    assert WITH_BIAS_BOUND in legend(figure)


def test_a_forest_says_what_is_not_private():
    result = fit()
    assert "NOT PRIVATE" in plot.forest(result).get_supxlabel()
    private = dataclasses.replace(result, privacy=dataclasses.replace(result.privacy, private=True))
    assert "NOT PRIVATE" not in plot.forest(private).get_supxlabel()
    assert "ρ = 0.1" in plot.forest(private).get_supxlabel()
    assert "one record" in plot.forest(private).get_supxlabel()
    assert "NOT PRIVATE" in plot.forest(private, reference=result).get_supxlabel()
    assert (
        "does not cover"
        in plot.forest(private, reference=(result.estimate, result.conf_int())).get_supxlabel()
    )


def test_what_has_no_interval_keeps_its_row_without_a_bar():
    result = without(fit(), 1)
    figure = plot.forest(result)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(result.names)
    assert len(ends(axes, WITH_NOISE)) == len(ends(axes, SAMPLING_ERROR)) == 2
    row = [text.get_text() for text in axes.texts if text.xy[1] == 1]
    assert row == ["not identified at this budget"]
    drawn(figure)


def test_a_result_without_any_interval_renders():
    result = fit()
    nothing = dataclasses.replace(
        result, error=result.error.mapped(np.empty((0, 3))), status=("not identified",) * 3
    )
    figure = plot.forest(nothing)
    drawn(figure)
    assert [text.get_text() for text in figure.axes[0].texts].count("not identified") == 3


def names_of(figure):
    return [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]


def test_scales_that_differ_get_panels():
    result = fit()
    assert len(plot.forest(scaled(result, 1, 2, 1)).axes) == 1
    mixed = scaled(result, 1, 1e4, 1e-3)
    figure = plot.forest(mixed)
    assert names_of(figure) == [["age"], ["income"], ["sex[f]"]]
    assert "scale of its own" in figure.get_supxlabel()
    for axes, j in zip(figure.axes, (0, 1, 2), strict=True):
        reach = np.abs(mixed.conf_int()[j]).max()
        assert max(np.abs(axes.get_xlim())) < 1.5 * reach  # the interval fills its panel
        assert axes.get_xlim()[0] <= 0 <= axes.get_xlim()[1]
    drawn(figure)


@pytest.mark.parametrize("estimate", [[0.0, 0.1, 0.2], [0.01, 90.0, -400.0]])
def test_panels_do_not_depend_on_the_estimates(estimate):
    """Coefficients of equal precision are drawn at equal length, however large their estimates."""
    result = dataclasses.replace(fit(), estimate=np.array(estimate))
    assert names_of(plot.forest(result)) == [["age", "income", "sex[f]"]]
    apart = dataclasses.replace(result, error=result.error.mapped(np.diag([1.0, 100.0, 1.0])))
    assert names_of(plot.forest(apart)) == [["age"], ["income"], ["sex[f]"]]


def test_the_order_of_the_formula_is_kept_and_factors_stay_together():
    """The levels of a factor share a panel, though one of them is rare."""
    some = result_rows(fit(), 0.95)[0]

    def row(name, term, length):
        (bar,) = some.bars
        shown = dataclasses.replace(bar, low=-1.0, high=length - 1.0, reported=length > 0)
        return dataclasses.replace(some, name=name, term=term, bars=(shown,))

    rows = [
        row("age", "age", 1.0),
        row("a[1]", "a", 0.1),
        row("a[2]", "a", 10.0),
        row("a[3]", "a", 0.0),
        row("income", "income", 0.001),
        row("sex[f]", "sex", 0.0),
        row("height", "height", 1.0),
    ]
    names = [[one.name for one in group] for group in panels(rows)]
    assert names == [["age", "a[1]", "a[2]", "a[3]"], ["income", "sex[f]"], ["height"]]


def test_the_intercept_is_drawn_where_it_is_asked_for():
    result = dp.FitResult.load(RATES)
    assert "(Intercept)" not in str(names_of(plot.forest(result)))
    assert "The intercept is not drawn." in plot.forest(result).get_supxlabel()
    figure = plot.forest(result, intercept=True)
    assert names_of(figure)[0][0] == "(Intercept)"
    assert "not drawn" not in figure.get_supxlabel()
    alone = dataclasses.replace(fit(), names=("(Intercept)", "a", "b"))  # of arrays
    assert names_of(plot.forest(alone)) == [["a", "b"]]


@pytest.mark.parametrize("factor", [0.1, 1.0, 5.0, 100.0, 1e60])
def test_ratios_stand_on_a_logarithmic_axis(factor):
    """A tick of a ratio stands at its logarithm; the line marks 1."""
    result = scaled(fit(), factor, factor, factor)
    axes = plot.forest(result, exp=True).axes[0]
    low, high = axes.get_xlim()
    marks = dict(
        zip([t.get_text() for t in axes.get_xticklabels()], axes.get_xticks(), strict=True)
    )
    assert 2 <= len(marks) <= 9
    for label, place in marks.items():
        assert low <= place <= high
        ratio = float(label.removeprefix("e^").replace("−", "-"))
        expected = ratio if label.startswith("e^") else np.log(ratio)
        assert place == pytest.approx(expected, rel=1e-3, abs=1e-3)
    if factor < 100:
        assert marks["1"] == pytest.approx(0, abs=1e-12)
    assert np.allclose(ends(axes, WITH_NOISE), result.conf_int())


def test_a_model_without_ratios_has_none_to_draw():
    line = fit(loss=dp.HuberHinge(0.5))
    assert plot.forest(line).axes[-1].get_xlabel() == "Coefficients in original units"
    with pytest.raises(dp.InputError, match="exp=True"):
        plot.forest(line, exp=True)


def test_a_reference_is_drawn_beside():
    result, plain = fit(), fit(budget=dp.NoPrivacy())
    for reference in (plain, (plain.estimate, plain.conf_int())):
        axes = plot.forest(result, reference=reference).axes[0]
        label = "reference, not private" if reference is plain else "reference"
        assert np.allclose(ends(axes, label), plain.conf_int())
    drawn(plot.forest(result, reference=without(plain, 2)))
    other = dataclasses.replace(plain, names=("a", "b", "c"))
    for bad in (other, (plain.estimate[:2], plain.conf_int()), (plain.estimate, plain.estimate)):
        with pytest.raises(dp.InputError, match="reference needs"):
            plot.forest(result, reference=bad)


def test_odd_forests_render():
    for result in (
        fit(names=("a$b$", "x" * 200, "two\nlines")),
        scaled(fit(), 1e60, 1e-60, 1),
        dataclasses.replace(fit(), estimate=np.zeros(3)),
    ):
        drawn(plot.forest(result))


def foreseen(d, budgets, **facts):
    plain = np.random.default_rng(d).uniform(0.1, 0.2, d)
    values = {
        "names": tuple(f"occupation[level {j}]" for j in range(d)),
        "budgets": budgets,
        "half_width": plain * np.linspace(3, 1.2, len(budgets))[:, None],
        "low": np.ones((len(budgets), d)),
        "high": np.ones((len(budgets), d)),
        "within": np.ones((len(budgets), d)),
        "reported": np.ones((len(budgets), d)),
        "nonprivate": np.tile(plain, (len(budgets), 1)),
        "records": 1000,
        "level": 0.9,
        "replicates": 20,
        "seed": 0,
        "setting": "y ~ occupation, 1,000 records",
        "assumed": ("columns that are independent",),
    }
    return dp.simulate.Forecast(**(values | facts))


def test_a_forecast():
    """Marks at the length over the plain one; hollow where it is seldom reported, and none where it
    never is.
    """
    budgets = (dp.ApproxDP(1.0, 1e-6), dp.ZCDP(0.5))
    found = foreseen(3, budgets)
    found.reported[0] = (1.0, 0.4, 0.0)
    found.half_width[0, 2] = np.nan
    figure = plot.forecast(found)
    panel = figure.axes[0]
    marks = [line for line in panel.get_lines() if line.get_linestyle() == "None"]
    assert [len(line.get_xdata()) for line in marks] == [1, 1, 3, 0]
    assert np.allclose(marks[0].get_xdata(), 3)
    assert np.allclose(marks[2].get_xdata(), 1.2)
    assert [to_hex(line.get_markerfacecolor()) == "#ffffff" for line in marks[:3]] == [
        False,
        True,
        False,
    ]
    assert legend(figure) == ["(1, 1e-06)", "rho 0.5"]
    shown = " ".join(text.get_text() for text in panel.texts)
    assert f"±{found.half_width[1, 0]:.3g}" in shown
    assert "not a promise" in figure._supxlabel.get_text()
    for d in (1, 40):
        assert drawn(plot.forecast(foreseen(d, budgets * 4)))
    never = foreseen(2, budgets[:1], half_width=np.full((1, 2), np.nan), reported=np.zeros((1, 2)))
    assert "not reported" in " ".join(
        text.get_text() for text in plot.forecast(never).axes[0].texts
    )
    assert drawn(plot.forecast(never))


def test_notebooks_show_pictures_without_pyplot():
    picture = plot.forest(fit())
    assert picture._repr_png_().startswith(b"\x89PNG")
    assert picture.canvas.manager is None
