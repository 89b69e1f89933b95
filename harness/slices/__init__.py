"""Slices of tables: the files that a filter needs, in a valid table of the same format that any reader can read.

Read `pulling` first: it makes a slice or brings one to a newer snapshot. `request` defines the options and selects the
rows to keep, `directory` fetches files into the slice's directory, and `rewriting` rewrites data files. `iceberg` and
`delta` choose the contents of a slice of their format and write its metadata.
"""
