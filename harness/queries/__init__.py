"""Queries: one SQL text for both engines. Start with `sql`.

`plain` and `rewrite` replace tables by views. `time_travel` resolves versions and times in the text, and `changes`
calls of the table function `changes`. `pushdown` and `outputs` find the conditions that skip files.
`engines.spark.transpile` translates a query for Spark. `allowances` names result columns that may differ in their last
bits.
"""
