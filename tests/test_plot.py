"""The pictures: what is in them, and that they render at every size."""

import io
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_hex

from dpinfer import plot
from dpinfer.simulate import Study


def study(d, *, coverage=None, length=None, plain=None, **facts):
    rng = np.random.default_rng(d)
    length = rng.uniform(0.2, 0.4, d) if length is None else np.array(length)
    values = {
        "names": tuple(f"occupation[level {j}]" for j in range(d)),
        "target": rng.normal(size=d),
        "coverage": np.full(d, 0.95) if coverage is None else np.array(coverage),
        "length": length,
        "length_sd": length / 10,
        "nonprivate_length": length / 2 if plain is None else np.array(plain),
        "reported": np.ones(d),
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
    low, high = plot._whiskers(found, 400)
    for end in (low, high):
        assert np.allclose(np.abs(found - end), 2 * np.sqrt(np.clip(end * (1 - end), 0, 1) / 400), atol=1e-7)
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
