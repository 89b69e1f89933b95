"""Runs a plan row by row, in plain Python.

`reading` is the door, and the way of a row from file to Arrow. `files`, `avro_file` and `stored` turn bytes into
columns and rows; `columns` and `conversions` say what a table's field is in a file; `deletes` and `bitmaps` give the
deleted rows; `filters` and `sql_types` evaluate the filter, in three-valued logic. Only the spelling of variants is
shared with the other engines.
"""
