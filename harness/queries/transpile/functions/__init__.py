"""Scalar functions of DuckDB on Spark: a table of them, one entry for each.

registry    the shape of an entry
parameters  what may stand as an argument
calls       calls in parsed SQL, by their names
general, operators, text, patterns, numbers, date_parts, times, lists, folds, nested
            the entries, with what lowers them
letters, formats, regexes, intervals, texts_as_values
            what these are made of
table       all of them, and who lowers a call by them
"""
