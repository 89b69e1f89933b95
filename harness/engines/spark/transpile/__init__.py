"""DuckDB's SQL written as Spark's, with the same rows: whatever may mean two things is refused. Read `queries` first.

`clauses` and `joins` lower the parts of a query, `expressions` and its neighbours values,
`functions` calls. `parser` reads the text, and `agreement` holds the result against DuckDB's own reading.
"""
