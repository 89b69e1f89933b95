"""Queries: one SQL text for both engines. Read `sql` first.

`plain` and `rewrite` put views in the place of tables, with `time_travel` and the conditions that skip files
(`pushdown`, `outputs`). `engines.spark.transpile` writes a query for Spark. `allowances` names columns that differ in
last bits.
"""
