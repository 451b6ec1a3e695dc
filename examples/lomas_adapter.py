"""A library adapter in the manner of lomas: one class, which prices a request and answers it.

lomas asks the adapter of a library for two methods: ``cost``, the (ε, δ) of a request, and ``query``, its
answer.  Nothing of lomas is imported; its ``DPQuerier`` would be the base class.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import dpinfer as dp

MODELS = {
    "linear": dp.LinearRegression,
    "logistic": dp.LogisticRegression,
    "poisson": dp.PoissonRegression,
}
"""The models that may be asked for: a name from a request never becomes code."""


@dataclass
class DpinferQuerier:
    """The adapter of one private data set: how to load it, its public facts, and its ledger."""

    load: Callable[[], Any]
    schema: dp.Schema
    ledger: dp.Ledger
    records: int

    def cost(self, request: Mapping[str, Any]) -> tuple[float, float]:
        """Return (ε, δ) of a request; refuse what the total does not pay for.  No record is read."""
        preview = self.ledger.preview(self._model(request).entry(self.records))
        if not preview.accepted:
            raise dp.LedgerError(preview.reason)
        return float(request["epsilon"]), float(request["delta"])

    def query(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Book a request, then read the data, and return the result with its table."""
        result = self._model(request).fit(self.load()).result_
        return {"table": result.table(), "result": json.loads(result.to_json())}

    def _model(self, request: Mapping[str, Any]) -> Any:
        if request["model"] not in MODELS:
            raise dp.InputError(f"a model is one of {', '.join(MODELS)}")
        budget = dp.ApproxDP(float(request["epsilon"]), float(request["delta"]))
        model = MODELS[request["model"]]
        return model(request["formula"], schema=self.schema, budget=budget, ledger=self.ledger)
