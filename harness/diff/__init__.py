"""Comparisons of two sides: whether two results hold the same rows, and how they differ. Read `compare` first.

`opening` turns the objects that a user passes into sides. `exact` compares small sides row by row, `by_hashes` compares
large ones by hashes that DuckDB and Spark compute (`hashing`). `result` defines the result types, and `reports` prints
them.
"""
