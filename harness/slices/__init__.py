"""Slices of tables: the files that a filter needs, in a valid table of the same format that any reader reads.

Read `pulling` first: it makes a slice, slices that fit each other, or a newer one. `request` holds the options and
finds the rows to keep, `place` fetches files into the slice's directory, `rewriting` writes data files anew. `iceberg`
and `delta` choose the contents of a slice of their format and write its metadata.
"""
