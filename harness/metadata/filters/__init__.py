"""Filters: from SQL text to the conditions that planning can decide, shared by both formats.

Read `predicate` first: it defines the meaning of a filter for a row and for the statistics of a file. `parse` makes
filters from text, and uses `operands`, `literals`, and `literal_comparison` for comparisons. `sqltext` reads and writes
names and values in SQL. `skipping` holds the statistics of columns in many files, and decides predicates with them.
"""
