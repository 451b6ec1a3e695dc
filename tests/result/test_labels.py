"""Labels, descriptions and units of a schema: they name rows and columns in every view, and change no release."""

import csv
import io
import json

import pytest

import dpinfer as dp
from dpinfer.result.question import column_table
from dpinfer.schema import toml
from helpers.pages import Tree

DEMO = dp.datasets.rand_hie()
TEXTS = {
    "visit": {"label": "Any outpatient visit"},
    "mdvis": {"label": "Outpatient visits", "unit": "visits"},
    "disea": {"label": "Chronic diseases", "unit": "points", "description": "an index"},
    "idp": {"label": "Deductible plan"},
    "health": {"label": "Self-rated health"},
}
FORMULA = "visit ~ disea + physlm + health + idp:physlm + ill"
NAMES = ("disea", "health[good]", "idp:physlm", "ill")
LABELS = (
    "Chronic diseases (points)",
    "Self-rated health: good",
    "Deductible plan × physlm",
    "Many diseases",
)


def schema(texts):
    document = DEMO.schema.document()
    for name, entry in texts.items():
        document["columns"][name] |= entry
    document["columns"]["ill"] = {"from": "disea >= 20", "label": texts and "Many diseases"}
    if not texts:
        del document["columns"]["ill"]["label"]
    return dp.Schema.parse(toml.dump(document))


def fit(texts):
    model = dp.LogisticRegression(
        FORMULA, schema=schema(texts), budget=dp.ZCDP(1.0), insecure_seed=1
    )
    return model.fit(DEMO.table).result_


@pytest.fixture(scope="module")
def labelled():
    return fit(TEXTS)


@pytest.fixture(scope="module")
def plain():
    return fit({})


def test_labels_change_no_release(labelled, plain):
    assert (labelled.estimate == plain.estimate).all()
    assert labelled.names == plain.names
    assert list(labelled.to_frame().columns) == list(plain.to_frame().columns)
    assert plain.labels == plain.names
    names = dict(zip(labelled.names, labelled.labels, strict=True))
    assert tuple(names[name] for name in NAMES) == LABELS


def test_a_schema_without_labels_has_the_digest_that_it_had():
    """Texts that are not there are not in the document, so they are not in its digest."""
    assert "label" not in json.dumps(DEMO.schema.document())
    assert schema(TEXTS).digest() != schema({}).digest()


def test_every_table_and_plot_has_the_labels(labelled, plain):
    for result, names in ((labelled, LABELS), (plain, NAMES)):
        page = Tree(dp.report.html(result)).root
        rows = [row.all("th")[0].words() for row in page.all("table")[0].all("tr")]
        both = dp.compare([result, result])
        views = (
            result.summary(),
            result.to_markdown().replace("\\", ""),
            result.to_latex().replace(r"$\times$", "×").replace("{[}", "[").replace("{]}", "]"),
            result._repr_html_(),
            dp.report.markdown(result).replace("\\", ""),
            both.to_text(100),
            dp.report.side_by_side(both),
            dp.plot.forest_text(result, 0.95, 120),
            "\n".join(
                label.get_text()
                for axes in dp.plot.forest(result).axes
                for label in axes.get_yticklabels()
            ),
        )
        for name in names:
            assert any(row.startswith(name) for row in rows)
            for view in views:
                assert name in view
    shown = Tree(dp.report.html(labelled)).root.all("table")[0].words()
    assert (
        "Chronic diseases (points) disea" in shown
    )  # the name that a formula uses stands under it


def test_files_carry_labels(labelled):
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(labelled))))
    by_name = {row["name"]: row["label"] for row in rows}
    assert tuple(by_name[name] for name in NAMES) == LABELS
    assert {row["outcome_label"] for row in rows} == {"Any outpatient visit"}
    again = dp.FitResult.from_json(labelled.to_json())
    assert again.labels == labelled.labels
    assert again.summary() == labelled.summary()
    reading = json.loads(labelled.to_json())["reading"]["coefficients"]
    assert [row["label"] for row in reading[:-1]] == list(labelled.labels)
    assert list(labelled.tidy()["label"]) == list(labelled.labels)


def test_results_of_earlier_versions_have_their_names(labelled):
    document = json.loads(labelled.to_json())
    question = document["question"]
    for entry in (*question["columns"].values(), *question["derived"].values()):
        for key in ("label", "unit", "description"):
            entry.pop(key, None)
    for row in document["reading"]["coefficients"]:
        del row["label"]
    old = dp.FitResult.from_json(json.dumps(document))
    assert old.labels == old.names
    assert "health[good]" in old.summary()


def test_the_outcome_has_its_label(labelled):
    assert "Outcome: Any outpatient visit (visit) is True (against False)." in labelled.summary()
    rate = dp.PoissonRegression("mdvis ~ idp", schema=schema(TEXTS), budget=dp.NoPrivacy())
    result = rate.fit(DEMO.table).result_
    assert "Outcome: Outpatient visits (mdvis), a number from 0 to 100 visits." in result.summary()
    assert result.question.outcome_label == "Outpatient visits (visits)"


def test_what_was_regressed_is_a_table(labelled):
    page = Tree(dp.report.html(labelled)).root
    table = page.all("table")[1]
    assert [head.words() for head in table.all("thead")[0].all("th")] == [
        "Name",
        "Meaning",
        "Bounds or levels",
    ]
    rows = {
        row.all("th")[0].words(): [cell.words() for cell in row.all("td")]
        for row in table.all("tbody")[0].all("tr")
    }
    assert rows["disea"] == ["Chronic diseases: an index", "from 0 to 60 points"]
    assert rows["health"] == [
        "Self-rated health",
        "excellent (reference), good, fair, poor",
    ]
    assert rows["ill"] == ["Many diseases", "disea >= 20"]
    assert "| disea | Chronic diseases: an index | from 0 to 60 points |" in dp.report.markdown(
        labelled
    )


def test_columns_of_arrays_have_bounds_alone():
    x = DEMO.table[["disea", "physlm"]].to_numpy()
    model = dp.LinearRegression(
        bounds=([0, 0], [60, 1]), outcome=(0, 100), budget=dp.NoPrivacy()
    ).fit(x, DEMO.table["mdvis"].to_numpy())
    question = model.result_.question
    assert column_table(question.columns).titles == ("Name", "Bounds or levels")


def test_odds_ratios_are_a_column_without_the_intercept(labelled):
    ratios = labelled.odds_ratios()
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(labelled))))
    for row in rows:
        if row["name"].startswith("(Intercept"):
            assert row["odds_ratio"] == row["odds_ratio_low"] == row["odds_ratio_high"] == ""
            continue
        for key, column in (("", "odds_ratio"), ("_low", "low"), ("_high", "high")):
            assert float(row[f"odds_ratio{key}"]) == pytest.approx(
                ratios.loc[row["name"], column], nan_ok=True
            )
    lines = labelled.to_markdown().splitlines()
    place = lines[0].split("|").index(" Odds ratio (95% interval) ")
    rows = [line.split("|") for line in lines[2:] if line.startswith("|")]
    shown = {row[1].strip(): row[place].strip() for row in rows}
    found = ratios.loc["disea"]
    assert float(shown["Chronic diseases (points)"].split()[0]) == pytest.approx(
        found["odds_ratio"], rel=1e-3
    )
    assert shown["(Intercept)"] == "–"
    assert "odds are multiplied" in dp.report.html(labelled)
    least_squares = dp.LinearRegression("mdvis ~ idp", schema=schema({}), budget=dp.NoPrivacy())
    linear = least_squares.fit(DEMO.table).result_
    for view in (linear.summary(), dp.report.csv(linear), linear.to_latex()):
        assert "ratio" not in view
