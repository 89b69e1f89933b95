"""Queries: one SQL text for both engines. Read `sql` first.

`plain` understands plain queries without sqlglot. `rewrite` puts views in the place of tables in all others, with
`statements`, `time_travel`, and the conditions that skip files (`pushdown`, `sources`, `outputs`). `transpile` writes a
query for Spark, and `allowances` says which columns may differ in their last bits.
"""
