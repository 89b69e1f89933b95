"""Translation of DuckDB's SQL to Spark's SQL with the same result. Start with `queries`.

`clauses` and `joins` translate the parts of a query, `expressions` and the modules it uses translate values, and
`functions` translates calls. `parser` parses the text, and `agreement` checks the parsed query against DuckDB's own
parser. A construct that may mean something else on Spark is refused: all functions that translate a node raise
UnsupportedError for these constructs, also if their docstrings do not mention it.
"""
