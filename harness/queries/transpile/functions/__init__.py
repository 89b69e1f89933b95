"""Scalar functions of DuckDB on Spark: a table of them, one entry for each.

registry    the shape of an entry
parameters  what may stand as an argument
calls       calls in parsed SQL, by their names
general, operators, text, patterns, numbers, times, lists, nested
            the entries
table       all of them, and who lowers a call by them
"""
