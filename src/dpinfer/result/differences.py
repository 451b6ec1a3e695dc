"""Facts that several results share or that differ between them, and what may not be concluded from
them.
"""

from collections.abc import Mapping, Sequence

from dpinfer.result.estimates import AT_ZERO, Estimates
from dpinfer.schema.design import INTERCEPT

_UNASKED = "not known, as it was fitted on bare rows"
_KINDS = {
    "margin": "changes of the predictor of a margin",
    "residual": "changes of the outcome, in its units",
    "count": "changes of the logarithm of a rate",
}
_NOT_PRIVATE = "NOT PRIVATE, do not publish"
SHARED = (
    "Results do not say whether models were fitted to the same records. If they were, their costs "
    "count together: the ledger has the total, which is not computed here. Intervals of such models "
    "are not independent. A difference between two columns has no interval here, and whether two "
    "intervals overlap does not replace it."
)
"""What holds of models that share records."""
KINDS = (
    "The models differ in their outcomes or in what a coefficient is. Numbers in one row then answer "
    "different questions, and their sizes are not to be compared."
)
COLUMNS_MATTER = (
    "A coefficient of logistic regression also changes when a column is added that is unrelated to "
    "the others. A change from one model to the next is no proof of confounding."
)
CENTRES = (
    f"{INTERCEPT} is the linear predictor at the centre that a fit has released, and each fit has its "
    f"own. What can be compared is {AT_ZERO}."
)


def notes(fits: Mapping[str, Estimates], *, intercepts: bool) -> list[str]:
    """Say what is the same in all models, what differs, and what may not be concluded;
    ``intercepts`` says whether they are shown.
    """
    stated = {name: _stated(fit) for name, fit in fits.items()}
    same = []
    others = []
    for key, told in _by_key(stated):
        if len(told) == len(fits) and not _differ(told):
            same.append(f"{key}: {told[0][1]}")
        else:
            others.append(_sentence(key, told))
    found = [f"The same in all models. {'. '.join(same)}.", *others]
    asked = {name: fit.question for name, fit in fits.items() if fit.question is not None}
    declared = {name: question.declared() for name, question in asked.items()}
    entries = {name: question.entries() for name, question in asked.items()}
    found += _partly(entries)
    for facts, what in ((declared, "Declared about"), (entries, "Terms with")):
        found += [_sentence(f"{what} {key}", told) for key, told in _by_key(facts) if _differ(told)]
    found += _cautions(fits, stated)
    if intercepts and any(fit.geometry is not None and fit.intercept for fit in fits.values()):
        found.append(CENTRES)
    return [*found, SHARED]


def _stated(fit: Estimates) -> dict[str, str]:
    """Return the facts of a model."""
    model = fit.model
    privacy = fit.privacy
    facts = {"Question": _UNASKED}
    if fit.question is not None:
        facts = {"Question": fit.question.asked, **fit.question.facts()}
    facts["Model"] = model.words.name or model.loss
    if model.penalty:
        facts["Penalty"] = f"c = {model.penalty:.6g}"
    facts["Target"] = model.target
    facts["Coefficients"] = "changes of the log-odds" if model.logistic else _KINDS[model.of]
    facts |= fit.size
    counted = model.counting()
    if counted:
        facts["Counting"] = ". ".join(counted)
    facts["Privacy"] = str(privacy.budget) if privacy.private else _NOT_PRIVATE
    facts["Protects"] = privacy.unit
    facts["Adjacency"] = privacy.neighbours.sentence
    facts["Release"] = "not booked in a ledger"
    if privacy.in_ledger:
        facts["Release"] = privacy.release or "booked"
    return facts


def _partly(entries: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Name the columns that are not in all models, with the models that have them."""
    columns: dict[str, list[str]] = {}
    for column, told in _by_key(entries):
        if len(told) < len(entries):
            columns.setdefault(", ".join(name for name, _ in told), []).append(column)
    if not columns:
        return []
    parts = [f"{names}: {', '.join(listed)}" for names, listed in columns.items()]
    return [f"Columns that are not in all models. {'; '.join(parts)}."]


def _by_key(facts: Mapping[str, Mapping[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return for each key the models that have it, with their facts."""
    keys = dict.fromkeys(key for told in facts.values() for key in told)
    return [
        (key, [(name, told[key]) for name, told in facts.items() if key in told]) for key in keys
    ]


def _differ(told: Sequence[tuple[str, str]]) -> bool:
    return len({fact for _, fact in told}) > 1


def _sentence(key: str, told: Sequence[tuple[str, str]]) -> str:
    """Write a fact that differs; models that share it are named together."""
    sharing: dict[str, list[str]] = {}
    for name, fact in told:
        sharing.setdefault(fact, []).append(name)
    parts = [f"{', '.join(names)}: {fact}" for fact, names in sharing.items()]
    return f"{key}. {'; '.join(parts)}."


def _cautions(fits: Mapping[str, Estimates], stated: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what may not be concluded from these models, besides what holds of all."""
    cautions = []
    kinds = {
        (facts.get("Outcome"), facts.get("Exposure"), facts["Coefficients"])
        for facts in stated.values()
    }
    if len(kinds) > 1:
        cautions.append(KINDS)
    logistic = {frozenset(fit.names) for fit in fits.values() if fit.model.logistic}
    if len(logistic) > 1:
        cautions.append(COLUMNS_MATTER)
    return cautions
