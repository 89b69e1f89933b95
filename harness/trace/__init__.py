"""The lives of rows: which commit brought a row, which commits carried or changed it, and what ended it.

Read `reading.trace` first. `linking` connects the versions of a row in different files, and `sentences` describes the
result. Both are pure functions of the values in `model`.
"""
