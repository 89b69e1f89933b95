"""Functions of DuckDB in Spark's SQL by kind of values. `registry` has the shape of an entry, `table` all entries."""
