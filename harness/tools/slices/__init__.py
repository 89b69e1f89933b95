"""Slices of tables: the files that a filter needs, in a valid table of the same format that any reader reads.

`pulling` is the door. `iceberg` and `delta` say what a slice of their format holds, and write its metadata anew; what
is copied, where it goes and what is noted beside it is the same for both.
"""
