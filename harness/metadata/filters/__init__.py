"""Filters: from SQL text to what planning can decide, the same for both formats.

Read `predicate` first: the meaning of a filter, on a row and on the statistics of a file. `parse` makes filters from
text, with `operands`, `literals` and `literal_comparison` for comparisons. `sqltext` reads and writes names and values.
`skipping` has the statistics of columns in many files, and decides a predicate over them.
"""
