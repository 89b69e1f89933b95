"""Comparisons of two sides: whether two results are the same rows, and where they are not. Read `compare` first.

`opening` makes sides of what a user hands in. `exact` compares few rows, `by_hashes` many, with `buckets`, `review` and
the hashes that DuckDB (`hashing`) and Spark (`spark_side`) compute. `result` holds the findings, `reports` shows them.
"""
