"""Comparisons of two sides: whether two results are the same rows, and where they are not. Read `compare` first.

`opening` makes sides of a user's objects. `exact` compares few rows, `by_hashes` many, by the `hashing` of DuckDB and
Spark. `result` holds the findings, `reports` shows them.
"""
