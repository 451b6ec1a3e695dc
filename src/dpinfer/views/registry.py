"""The entry of a release for a registry of deployments of differential privacy, as YAML.

The fields are those of the registry's own template; docs/registry-schema.yaml describes them.  What a
release cannot know is taken from answers, and what is not answered is left as a question.
"""

import json
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from dpinfer.errors import InputError
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.privacy.ledger import Ledger
from dpinfer.views.disclosure import Released, ReleaseFacts, mechanisms

OPEN = "TODO: "
"""Begins what is still to be answered."""
QUESTIONS = {
    "data_curator": "who publishes the release",
    "data_curator_type": "the kind of organisation that is, as Government, Industry or Academia",
    "intended_use": "what the release is for",
    "data_product_region": "the region that the data describe",
    "data_product_sector": "the sector, as Healthcare, Education, Government or Technology",
    "publication_date": "the date of publication, as 2026-11-20",
    "registry_authors": "who wrote this entry",
    "actors": "who may see data, release and ledger, and what each is trusted with",
    "exploration": "what was looked at without noise before, and whether its privacy loss was counted",
    "justification": "who chose unit, bounds and budget, and why",
}
"""The keys of answers, with the question that each answers; a release knows none of them."""
_VARIANTS = {PureDP: "Pure DP", ZCDP: "Zero-concentrated DP", ApproxDP: "Approximate DP"}
_LONG = 60  # characters of a text that gets lines of its own


def registry(
    released: Released,
    answers: Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    ledger: Ledger | None = None,
) -> str:
    """Return the entry of a release for the registry of deployments, as YAML.

    Parameters
    ----------
    released : FitResult, Description, SurvivalCurves or MomentRelease
        A private release.
    answers : mapping, optional
        What a release cannot know: ``data_curator``, ``data_curator_type``, ``intended_use``,
        ``data_product_region``, ``data_product_sector``, ``publication_date``, ``registry_authors``,
        ``actors``, ``exploration`` and ``justification``.  What is missing is left as a question that
        begins with ``TODO``.
    title : str, optional
        The name of the data product; by default the model with its formula.
    ledger : Ledger, optional
        The ledger in which it was booked: total and composition are taken from it.

    Returns
    -------
    str
        One document of YAML.

    Raises
    ------
    InputError
        If the release is not private, or an answer is none of these.
    LedgerError
        If the release is not in the ledger.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.2))
    >>> entry = dp.report.registry(model.fit(data.table).result_, {"intended_use": "teaching"})
    >>> print(entry.splitlines()[0])
    url_slug: "least-squares-mdvis-physlm"
    """
    given = dict(answers or {})
    unknown = [key for key in given if key not in QUESTIONS]
    if unknown:
        raise InputError(f"no answer is called {unknown[0]!r}: the keys are {', '.join(QUESTIONS)}")
    facts = ReleaseFacts.of(released, title, ledger)
    return "\n".join(_yaml(_entry(facts, given), 0)) + "\n"


def unanswered(answers: Mapping[str, Any] | None) -> list[str]:
    """Return the keys that have no answer yet."""
    return [key for key in QUESTIONS if not (answers or {}).get(key)]


def _entry(facts: ReleaseFacts, answers: Mapping[str, Any]) -> dict[str, Any]:
    def answer(key: str) -> str:
        return str(answers.get(key) or f"{OPEN}{QUESTIONS[key]}")

    authors = answers.get("registry_authors") or [answer("registry_authors")]
    privacy = facts.privacy
    several = facts.booking is not None and facts.booking.entries > 1
    entry: dict[str, Any] = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", facts.title.lower()).strip("-"),
        "deployment": {
            "basic": {
                "name": facts.title,
                "data_curators": [
                    {
                        "data_curator_name": answer("data_curator"),
                        "data_curator_type": answer("data_curator_type"),
                    }
                ],
                "description": f"Estimates with confidence intervals: {facts.estimand}.",
                "intended_use": answer("intended_use"),
                "data_product_type": "Summary statistics",
                "data_product_region": answer("data_product_region"),
                "data_product_sector": answer("data_product_sector"),
                "publication_date": answer("publication_date"),
            },
            "dp_variant": {
                "variant_name": _VARIANTS[type(privacy.budget)],
                "data_domain": _domain(facts),
                "unprotected_quantities": _unprotected(facts),
            },
            "privacy_loss": {
                "privacy_unit": privacy.unit,
                "privacy_unit_details": f"Neighbouring data sets differ as follows: "
                f"{privacy.neighbours.sentence}. {privacy.scope}",
                **({} if facts.n is None else {"number_of_privacy_units": facts.n}),
                "privacy_parameters": _parameters(privacy.budget),
                "privacy_parameters_details": _parameter_details(facts),
            },
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The holder of the data runs the software on the records.",
                "trust_assumptions": "The holder of the data is trusted with the records; readers of the release "
                "may know everything else.",
                "actors": answer("actors"),
                "release_type": "Many releases" if several else "One release",
                "release_type_details": "Further releases from the same data are booked against the same total, and "
                "refused beyond it.",
                "data_source_type": "Static",
                "data_source_type_details": "The table as it was when the release was made.",
                "access_type": "Non-interactive",
                "access_type_details": "This entry is about one release; its readers do not query the data.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "Values beyond declared bounds count as the bound. "
                "Ranges, scales and clips are learned by releases of this very budget. Before: "
                f"{answer('exploration')}",
                "mechanisms": _mechanisms(facts),
                "composition": _composition(facts),
                "post_processing": "Coefficients, figures and intervals are computed from the released sums alone.",
                "justification": answer("justification"),
                "utility": facts.reported,
                "additional_information": f"Release id: {privacy.release or 'none'}. Method: {facts.method}",
            },
            "administrative": {
                "status": "Draft",
                "registry_authors": [str(author) for author in authors],
                "tier": 3,
            },
        },
    }
    return entry


def _domain(facts: ReleaseFacts) -> str:
    declared = "; ".join(facts.columns) or "columns with declared bounds"
    return f"Tables of records of {facts.privacy.unit}, {facts.records}, with {declared}."


def _unprotected(facts: ReleaseFacts) -> str:
    count = "the number of records or units, " if facts.n is not None else ""
    return f"Public facts, declared before the data were read: {count}names, bounds and levels of columns, the formula."


def _parameters(budget: Any) -> dict[str, float]:
    names = ("epsilon", "delta", "rho")
    return {name: getattr(budget, name) for name in names if hasattr(budget, name)}


def _parameter_details(facts: ReleaseFacts) -> str:
    if facts.booking is None:
        return "The parameters are those of this release; no total for the data was given."
    return (
        f"This release: {facts.booking.cost}. Total for everything that is ever released from the data: "
        f"{facts.booking.total}. {facts.booking.statement}"
    )


def _mechanisms(facts: ReleaseFacts) -> str:
    lines = [f"- {one}" for one in mechanisms(facts.privacy)]
    return "\n".join(
        [
            *lines,
            f"- Implementation: dpinfer {version('dpinfer')}, all releases by one gate that books the cost first.",
            "- Floating point: noise is drawn exactly and lies on a public grid; the errors of float sums are bounded "
            "and covered.",
            "- Timing and memory: not covered by the promise for a fit by hand; a desk answers at public times.",
            "- Access to the data: that of the machine of their holder; the software adds none.",
        ]
    )


def _composition(facts: ReleaseFacts) -> str:
    if facts.booking is None:
        return "The releases of this result are composed together; other releases were not counted."
    return (
        f"The releases of this result are composed together. In the ledger, with {facts.booking.entries} in all, by "
        f"this rule: {facts.booking.rule}. It holds for adaptively chosen releases."
    )


def _yaml(value: Mapping[str, Any], depth: int) -> list[str]:
    """Return a mapping as lines of YAML: texts as JSON strings, or as literal blocks where they are long."""
    lines = []
    pad = "  " * depth
    for key, one in value.items():
        if isinstance(one, Mapping):
            lines += [f"{pad}{key}:", *_yaml(one, depth + 1)]
        elif isinstance(one, list):
            lines.append(f"{pad}{key}:")
            for item in one:
                if isinstance(item, Mapping):
                    first, *rest = _yaml(item, depth + 2)
                    lines += [f"{pad}  - {first.strip()}", *rest]
                else:
                    lines.append(f"{pad}  - {_scalar(item)}")
        elif isinstance(one, str) and (len(one) > _LONG or "\n" in one):
            lines += [f"{pad}{key}: |-", *(f"{pad}  {line}" for line in one.splitlines())]
        else:
            lines.append(f"{pad}{key}: {_scalar(one)}")
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, float):  # 1e-06 would be a text for some readers
        return f"{value:.6e}" if abs(value) < 1e-4 else repr(value)
    return json.dumps(value, ensure_ascii=False)
