"""Translation of DuckDB's functions, in one module per kind of values.

`registry` defines an entry, `table` lists all.
"""
