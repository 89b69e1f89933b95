"""Filters: from SQL text to what planning can decide, the same for both formats.

Read `predicate` first: the meaning of a filter, on a row and on the statistics of a file. `parse` makes filters from
text, with `operands`, `literals` and `literal_comparison` for comparisons; `column_names` finds columns.
`skipping` decides a predicate over the statistics of many files at once. `value_texts` reads dates, times and numbers.
"""
