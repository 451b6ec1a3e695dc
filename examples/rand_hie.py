"""Does cost sharing reduce the chance of seeing a doctor?  A private answer from the RAND
experiment.
"""

import dpinfer as dp

demo = dp.datasets.rand_hie()
ledger = dp.Ledger(total=dp.ZCDP(1.0), unit=demo.schema.unit.name)
model = dp.LogisticRegression(
    demo.formula, schema=demo.schema, budget=dp.ZCDP(0.1875), ledger=ledger
)
result = model.fit(demo.table).result_
print(result.summary())
