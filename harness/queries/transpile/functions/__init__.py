"""Functions of DuckDB in Spark's SQL, a module for each kind of values. Read `registry` first: the shape of an entry.

`table` has all entries, and lowers a call by them.
"""
